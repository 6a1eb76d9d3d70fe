"""Model cards of runs and data cards of episodes, as folders for the Hugging Face hub."""
