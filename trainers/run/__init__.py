"""Management of a run: folder, checkpoints, logging, processes, memory, end on request."""
