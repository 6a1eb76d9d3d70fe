"""Page in which a person plays agents of an environment, served on this machine alone."""
