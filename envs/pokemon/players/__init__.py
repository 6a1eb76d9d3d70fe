"""Own opponents, each a rule that is never changed: what plays better gets a new number or name."""
