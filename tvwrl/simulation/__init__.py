"""What happens over time: a cluster whose workloads arrive, wait, run and end, and what each slot costs."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["Cluster", "Scenario", "Simulation"]
