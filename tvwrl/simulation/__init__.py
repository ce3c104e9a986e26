"""What happens over time: a cluster whose workloads arrive, wait, run and end, and what each slot costs."""
