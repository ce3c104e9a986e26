"""Affinity-aware resource provisioning: Figures 3 to 7."""
