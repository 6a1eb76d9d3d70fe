"""A small network that plays battles from words and numbers: an encoder of a turn, a memory of turns, two heads."""
