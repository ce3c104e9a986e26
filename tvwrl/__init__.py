"""TVW-RL and relatives: placement of workloads whose resource usage changes over time."""
