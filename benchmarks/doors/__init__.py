"""Views of environments for other libraries: Gymnasium, PettingZoo's AEC API, TRL, Inspect, OpenEnv."""
