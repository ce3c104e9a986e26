"""The numbers that the paper prints."""

PREDICTION = {  # Table 2: RMSE, milliseconds of a prediction
    "FTRL factorization machine": (0.243, 1.15),
    "matrix factorization, online": (0.582, 0.73),
}
P99_INCREASE = {"cassandra": 3.2, "hbase": 3.9, "memcached": 2.7, "apache": 3.5}  # Figure 7, LRASched against FFD, %
PLACEMENT: dict[str, dict[str, float | str]] = {  # means over dimensions; Figures 8 and 10 of 500 applications
    "fig8": {"MILP": 86.1, "LRASched": "about the same", "FFD-AntiAffinity": 75.5},  # applications placed, %
    "fig9": {"MILP": 87.5, "LRASched": 86.0, "FFD-AntiAffinity": 79.8},  # utilisation, %
    "fig10": {"MILP": 114, "LRASched": 116, "FFD-AntiAffinity": 125},  # machines
}
PLANNING_TIME: dict[str, dict[str, tuple[str, float]]] = {  # Figures 11 and 12, milliseconds per application
    "fig11": {},
    "fig12": {"MILP": ("up to", 890), "LRASched": ("up to", 170), "FFD-AntiAffinity": ("below", 40)},
}
