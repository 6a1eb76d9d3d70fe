"""What every wing may use: nothing here knows an environment, a policy or a trainer."""
