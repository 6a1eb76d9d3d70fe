"""A sample plug-in: an environment, and an algorithm, a reward, a policy, a player and a recipe for it."""
