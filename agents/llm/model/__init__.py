"""Loading language models, their chat templates, copies and modes."""
