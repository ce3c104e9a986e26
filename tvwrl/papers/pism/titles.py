"""The figures that can be measured again, by name: titles only, so that listing them imports nothing."""

PAPER, PREFIX = "PISM paper", "pism"
TRACE = {
    "table1": "Table 1, how much batch work arrives and how long it runs",
    "table2": "Table 2, how often graphs of jobs recur",
    "fig8": "Figure 8, usage of batch tasks and thresholds between its classes",
}
CLASSIFIER = {"fig10": "Figure 10, accuracy of the task classifier by task and by instance"}
CLUSTER = {
    "fig12": "Figure 12, interference scores of machines with and without PISM",
    "table3": "Table 3, throughput of services",
    "fig13": "Figure 13, schedulers with and without PISM",
    "fig15": "Figure 15, response times of two services on 14 machines",
}
PREDICTION = {
    "table4": "Table 4, BUSY and IDLE of checkout",
    "fig16": "Figure 16, predicted by observed level of checkout",
    "fig17": "Figure 17, levels of all services within 2",
    "fig18": "Figure 18, scores of machines by weighting",
}
NGINX = {"nginx": "additional: levels of real runs of nginx under interference"}
SCHEDULERS = {"schedulers": "additional: schedulers of the time-varying simulator with and without PISM"}
LAWS = {"laws": "additional: the laws of the simulation fitted to measured response times, at published anchors"}
FIGURES = TRACE | CLASSIFIER | CLUSTER | PREDICTION | NGINX | SCHEDULERS | LAWS
