"""Compare your own scheduler with ours: python examples/own_scheduler.py (docs/how-to/enter-the-benchmark.md)."""

import sys

import tvwrl
from tvwrl.schedulers import CURRENT_LOAD, HeadOfQueue


class Emptiest(HeadOfQueue):
    """The head of the queue goes to the machine with the least load now; it waits where there is no room."""

    name, knowledge = "emptiest", CURRENT_LOAD  # its knowledge decides its group in the table

    def choose(self, cluster, workload):
        """The machine, or None to wait; `Cluster` and `Workload` have all the inputs."""
        machine = int(cluster.load.max(axis=1).argmin())
        return machine if cluster.room_now(workload)[machine] else None


if __name__ == "__main__":
    print(
        tvwrl.compare({"emptiest": Emptiest()}, "google-0.5-v1", sequences=int(sys.argv[1]) if sys.argv[1:] else None)
    )
