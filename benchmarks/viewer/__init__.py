"""Browser view of episodes: one file for a run, a file of episodes, or recorded battles.

The output is self-contained.
"""
