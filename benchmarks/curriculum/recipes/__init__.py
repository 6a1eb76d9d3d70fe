"""Shipped curricula, one YAML file each; the first line says what it is for."""
