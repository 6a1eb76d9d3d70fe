"""The leaderboard: result rows that can be trusted, measured from a list, as one table and one page."""
