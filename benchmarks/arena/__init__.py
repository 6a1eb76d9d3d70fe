"""The arena: players against each other in a competitive environment, in paired games, with ratings and intervals."""
