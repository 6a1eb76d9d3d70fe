"""Scenarios: a team's members among strangers, who are frozen and known by name and version."""
