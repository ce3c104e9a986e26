"""Learnt schedulers: networks, REINFORCE and PPO, the head start, online learning, DeepRM, checkpoints."""
