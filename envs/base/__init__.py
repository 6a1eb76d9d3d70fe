"""What environments share: stepping, spaces, tasks, arguments, rewards of a wrapper, checks."""
