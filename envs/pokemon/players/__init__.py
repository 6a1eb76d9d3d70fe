"""Own opponents, each a rule that is never changed.

A better rule has a new number or name.
"""
