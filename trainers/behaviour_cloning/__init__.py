"""Learning battles from recorded ones: losses, students, and the one loop that trains them."""
