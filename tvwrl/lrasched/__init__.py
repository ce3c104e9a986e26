"""Learnt container size and collocation degree of long-running applications (paper 000, LRASched)."""
