"""Any policy behind an HTTP server on this machine, with OpenAI's protocol."""
