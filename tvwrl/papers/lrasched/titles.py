"""The figures that can be measured again, by name: titles only, so that listing them imports nothing."""

PAPER, PREFIX = "LRASched paper", "lrasched"
LEARNING = {
    "table2": "Table 2, accuracy and latency of predictions",
    "fig2": "Figure 2, performance by degree of collocation (simulated)",
    "fig5": "Figure 5, accuracy as applications arrive (simulated)",
}
TESTBED = {
    "fig6": "Figure 6, utilisation of the testbed over time (simulated)",
    "fig7": "Figure 7, 99th percentile of response time by service (simulated)",
}
PLACEMENT = {
    "fig8": "Figure 8, applications that are placed (simulated)",
    "fig9": "Figure 9, utilisation of the cluster (simulated)",
    "fig10": "Figure 10, machines used when more are added (simulated)",
}
GAP = {
    "gap": "Gap of the heuristics to the optimum, on small batches (simulated)",
}
PLANNING_TIME = {
    "fig11": "Figure 11, latency by cluster size, 3 dimensions (simulated)",
    "fig12": "Figure 12, latency by cluster size, 6 dimensions (simulated)",
}
FIGURES = LEARNING | TESTBED | PLACEMENT | GAP | PLANNING_TIME
