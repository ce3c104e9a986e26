"""Learnt schedulers: networks, REINFORCE, checkpoints."""
