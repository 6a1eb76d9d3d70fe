"""Episodes to read in a browser: one file that loads nothing, for a run, a file of episodes, or recorded battles."""
