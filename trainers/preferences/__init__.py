"""Preferences between joint actions.

Pairs of a team's answers to one task, the better first.
"""
