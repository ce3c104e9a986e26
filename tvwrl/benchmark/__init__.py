"""Named tasks that never change, and how anybody's scheduler enters the same table (docs/benchmark.md)."""
