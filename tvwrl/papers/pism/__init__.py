"""PISM: interference of batch work with services, and schedulers that avoid it."""
