"""Planners for applications with replicas and affinity limits: how many machines hold them all (paper 001)."""
