"""Placement of the trained policies: in this process, or in Ray actors."""
