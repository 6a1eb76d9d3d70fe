"""TRL: an agent trained by `GRPOTrainer`, in whole episodes or by a tool; exported scripts."""
