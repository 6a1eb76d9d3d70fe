"""Reasoning teams compared with one agent: every row is trained and evaluated on the same held-out problems."""
