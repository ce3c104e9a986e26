"""The figures that can be measured again, by name: titles only, so that listing them imports nothing."""

PAPER, PREFIX = "Aladdin+H paper", "aladdin"
FIGURES = {
    "fig10": "Figure 10, violations, machines used and resource efficiency by cluster size",
    "fig11": "Figure 11, latency, runtime and migrations by cluster size",
    "repack": "what moving placed replicas is worth, by how full the cluster is",
}
