"""Models behind an HTTP server that speaks OpenAI's protocol.

Questions, limits, budgets, and a policy.
"""
