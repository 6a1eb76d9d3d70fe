"""Preferences between joint actions: pairs of a team's answers to one task, the better first."""
