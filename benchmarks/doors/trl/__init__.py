"""TRL: an agent trained by `GRPOTrainer`, by whole episodes or by a tool, and exported scripts."""
