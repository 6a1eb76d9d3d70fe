"""Groups of commands and experiments."""
