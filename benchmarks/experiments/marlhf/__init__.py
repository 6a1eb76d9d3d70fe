"""MARLHF: preferences between joint actions, a reward model of them, a team trained on it, and its evaluation."""
