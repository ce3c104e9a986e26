"""An entry that packs what runs on few machines, as `test_moves.Packs` does."""

from __future__ import annotations

import numpy as np

from tvwrl.schedulers import CURRENT_LOAD, HeadOfQueue
from tvwrl.types import Move


class Packs(HeadOfQueue):
    """Places on the least loaded machine with room, and moves to the machine with the lowest number that has room."""

    name, knowledge = "packs", CURRENT_LOAD

    def choose(self, cluster, workload):
        room = cluster.room_now(workload)
        return int(np.where(room, cluster.load.sum(axis=1), np.inf).argmin()) if room.any() else None

    def moves(self, cluster):
        while cluster.moves_left:
            running, load = cluster.running, cluster.load_after_moves
            for i in np.flatnonzero(running.movable):
                room = (load + running.usage[i] <= cluster.capacity).all(axis=1)
                room[running.machine[i] :] = False
                if room.any():
                    yield Move(int(running.workload[i]), int(room.argmax()))
                    break
            else:
                return


entry = Packs
