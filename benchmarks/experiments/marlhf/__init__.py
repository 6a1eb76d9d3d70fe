"""MARLHF: preferences between joint actions, a reward model, and a team trained on it."""
