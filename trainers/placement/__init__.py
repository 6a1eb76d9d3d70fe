"""Placement of the trained policies: in this process, or in Ray actors with resources of their own."""
