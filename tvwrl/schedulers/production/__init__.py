"""Rules by which production clusters place workloads: docs/production.md lists them, with their sources."""
