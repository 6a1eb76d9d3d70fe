"""verifiers: environments as tasksets with a model for each agent; exported packages."""
