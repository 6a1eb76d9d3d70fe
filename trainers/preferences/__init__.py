"""Preferences between joint actions: pairs of what a team said to one task, the better first."""
