"""A small network that plays battles from words and numbers.

It has an encoder of a turn, a memory of turns, and two heads.
"""
