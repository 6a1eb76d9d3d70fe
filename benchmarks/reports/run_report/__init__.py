"""Page and curve of a run, and pages that compare runs."""
