"""Models behind an HTTP server with OpenAI's protocol: questions, limits, budgets, a policy."""
