"""The leaderboard: verified result rows, evaluated from a list, as one table and one page."""
