"""Arena: paired games between players of a competitive environment, and their ratings."""
