"""One file for each algorithm: its equation, its choices and the settings of its paper."""
