"""Leagues: teams that learn a competitive game against a pool of opponents."""
