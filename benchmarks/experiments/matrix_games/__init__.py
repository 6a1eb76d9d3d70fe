"""Matrix games: every algorithm in every game, the returns next to the exact optimum."""
