"""The laboratory: every algorithm in every matrix game, the returns beside the exact optimum."""
