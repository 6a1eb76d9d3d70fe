"""Workflows: the order of speakers and their visibility, declared as data.

They go around any task with a scorer.
"""
