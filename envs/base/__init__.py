"""Shared parts of environments: stepping, spaces, tasks, arguments, reward wrapper, checks."""
