"""Training, evaluation and episodes from Python, as `palaver.train`."""
