"""Workflows: who speaks when and who sees what, declared as data, around any task with a scorer."""
