"""Learning battles from recorded ones: losses, pupils, and the one loop that trains them."""
