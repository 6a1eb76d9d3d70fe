"""Curriculum: a student that learns from battles in stages, each ended by a gate."""
