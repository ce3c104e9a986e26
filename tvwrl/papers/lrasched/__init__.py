"""LRASched: admitting more long-running applications via auto-estimating container size and affinity."""
