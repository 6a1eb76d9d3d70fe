"""The built-in tiny model, never downloaded.

It is shipped for our own generators, trained and cached for others.
"""
