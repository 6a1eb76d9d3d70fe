"""A run around its steps: folder, checkpoints, logging, processes, memory, an end on request."""
