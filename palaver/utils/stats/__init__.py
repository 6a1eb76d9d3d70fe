"""Estimates with intervals: repeated runs, paired tasks, games and pass@k."""
