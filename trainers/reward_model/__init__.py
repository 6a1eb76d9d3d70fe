"""Training reward models on preferences, and saying how good they are."""
