"""Experiments of many runs with one table."""
