"""Browser view of episodes: one self-contained file for a run, a file of episodes, or recorded battles."""
