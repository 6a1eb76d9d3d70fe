"""Pure functions: returns, advantages, losses, ratios and KL estimates."""
