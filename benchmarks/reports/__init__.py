"""Reports of runs: what a run folder holds, summaries, charts and pages."""
