"""The config of a run: its sections, defaults of algorithms, recipes."""
