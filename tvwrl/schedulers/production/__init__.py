"""Placement rules of production clusters; docs/reference/production-rules.md lists them with their sources."""
