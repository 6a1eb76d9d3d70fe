"""OpenEnv: environments behind a server, all agents or one of them; exported packages."""
