"""Placement rules of production clusters; docs/production.md lists them with their sources."""
