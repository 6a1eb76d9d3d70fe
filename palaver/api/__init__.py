"""Training and evaluation from Python: `palaver.train`, `palaver.evaluate`, `palaver.rollout`."""
