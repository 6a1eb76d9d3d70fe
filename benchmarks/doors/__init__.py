"""Views of environments for Gymnasium, PettingZoo's AEC API, TRL, Inspect and OpenEnv."""
