"""Log-probabilities and entropies of given texts."""
