"""Views of environments for Gymnasium, AEC, TRL, Inspect, OpenEnv and verifiers."""
