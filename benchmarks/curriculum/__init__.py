"""A pupil that learns from battles, stage after stage, until gates let it pass."""
