"""Speed of training steps, teams, the sandbox and battles."""
