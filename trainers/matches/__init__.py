"""Matches of two players, many at a time: players, workers, results and standings."""
