"""Scenarios: team members evaluated among unknown partners, fixed by name and version."""
