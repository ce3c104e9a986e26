"""Aladdin+H: Figures 10 and 11, and what repacking is worth."""
