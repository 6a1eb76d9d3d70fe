"""Views of environments for Gymnasium, PettingZoo's AEC API, TRL, Inspect, OpenEnv and verifiers."""
