"""Affinity-aware resource provisioning (paper 001): Figures 3 to 7."""
