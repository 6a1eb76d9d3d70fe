"""Rollouts: episodes in lockstep, the batch made of them, teams and evaluation."""
