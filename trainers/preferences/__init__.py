"""Preferences between joint actions: pairs of a team's answers to a task, the better first."""
