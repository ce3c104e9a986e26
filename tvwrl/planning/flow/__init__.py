"""Placement by flow on machines of many kinds (Aladdin+H), and the baselines of its paper."""
