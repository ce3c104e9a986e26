"""PISM (paper 003): interference of batch work with services, and schedulers that avoid it."""
