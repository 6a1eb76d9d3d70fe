"""Evaluation of a team on fixed tasks, its results, and stored episodes scored again."""
