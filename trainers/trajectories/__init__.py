"""Battles as data to learn from: what each side saw, asked for and did."""
