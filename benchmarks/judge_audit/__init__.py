"""How far a judge can be trusted: measures against human labels, probes, and the report that names its faults."""
