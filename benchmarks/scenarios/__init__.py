"""Scenarios: members of a team evaluated among unknown partners, which are fixed by name and version."""
