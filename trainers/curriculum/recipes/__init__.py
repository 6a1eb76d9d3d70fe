"""Shipped curricula, one YAML file each; the first line is its description."""
