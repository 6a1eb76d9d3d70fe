"""Helpers for every wing: nothing here knows an environment, a policy or a trainer."""
