"""Audit of a judge: agreement with human labels, probes, and a report of its faults."""
