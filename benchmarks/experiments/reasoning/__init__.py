"""Comparison of reasoning teams with one agent.

Every row is trained, and evaluated on the same held-out problems.
"""
