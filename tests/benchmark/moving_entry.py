"""An entry that packs what runs on few machines."""

from __future__ import annotations

import numpy as np

from tvwrl.packing import room_now
from tvwrl.schedulers import CURRENT_LOAD, HeadOfQueue
from tvwrl.types import Move


class Roomiest(HeadOfQueue):
    """Places on the least loaded machine with room, where all of the following begin."""

    name, knowledge = "roomiest", CURRENT_LOAD

    def choose(self, cluster, workload):
        room = cluster.room_now(workload)
        return int(np.where(room, cluster.load.sum(axis=1), np.inf).argmin()) if room.any() else None


class Packs(Roomiest):
    """Moves what it can to the machine with the lowest number that has room."""

    name = "packs"

    def moves(self, cluster):
        while cluster.moves_left:
            running, load = cluster.running, cluster.load_after_moves
            for i in np.flatnonzero(running.movable):
                room = room_now(load, running.usage[i], cluster.capacity)
                room[running.machine[i] :] = False
                if room.any():
                    yield Move(int(running.workload[i]), int(room.argmax()))
                    break
            else:
                return


entry = Packs
