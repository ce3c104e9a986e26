"""DeepRM (Mao et al. 2016) as TVW-RL modified it for a baseline: it learns which waiting workload is next."""
