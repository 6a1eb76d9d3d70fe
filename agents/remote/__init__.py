"""Models behind an HTTP server that speaks OpenAI's protocol: questions, limits, budgets, and a policy."""
