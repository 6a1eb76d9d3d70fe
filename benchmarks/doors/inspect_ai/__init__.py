"""Inspect: environments as tasks with a model for each agent, and stored episodes as logs."""
