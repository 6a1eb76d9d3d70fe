"""Generation by vLLM in this process, and the transfer of trained weights to it."""
