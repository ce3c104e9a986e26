"""TVW-RL: Scheduling of Time-Varying Workloads Using Reinforcement Learning (AAAI 2021)."""
