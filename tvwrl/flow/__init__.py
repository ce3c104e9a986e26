"""Placement by flow on machines of many kinds (Aladdin+H, paper 002), its baselines, bounds and referee."""
