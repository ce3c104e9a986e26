"""What schedulers assume that workloads use before metrics show it: measured load, completed by what was bound since.

Metrics are late. So Koordinator and Katalyst (`podAssignCache`, `PodInfoMap`) and Trimaran (`ScheduledPodsCache`)
remember which workloads they placed. On top of the measured load of a machine they count an estimate of every workload
that was bound there after the newest sample was taken, and of the newcomer. An estimate is a share of what the workload
declares.
"""

from __future__ import annotations

import numpy as np

from tvwrl.schedulers.production.usage import placed_since, summed
from tvwrl.simulation import SEQUENCE, Cluster
from tvwrl.types import Float, Workload

FLAT = (0.85, 0.70)  # of CPU and of memory: Koordinator's default estimator, and Katalyst's
LIMIT = (1.0, 1.0)  # Trimaran: the limit, which stands for the request too where one number is declared


def estimated_load(cluster: Cluster, workload: Workload, share: tuple[float, float]) -> Float:
    """(M, 2) units of CPU and memory (the first and the last resource), if the workload were placed there.

    The newest measured load, plus `share` (of CPU and of memory, >= 0) of what is requested by the workloads that were
    placed since, and by the newcomer. With `usage_delay` 0 all that was placed is measured.
    """
    new, where = placed_since(cluster, cluster.measured + 1)
    sequence = cluster.simulation.state.counters[cluster.b, SEQUENCE]
    unseen = summed(cluster.simulation.request[sequence, new], where, len(cluster.machines))
    wanted = unseen + cluster.request_of(workload)
    load: Float = cluster.load[:, [0, -1]] + np.array(share) * wanted[:, [0, -1]]
    return load
