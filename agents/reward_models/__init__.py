"""Reward models: language models with one number for an output, `rm:NAME_OR_FOLDER`."""
