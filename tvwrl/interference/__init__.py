"""PISM: how much batch work slows the services on its machine, and where to place it instead.

Proactive performance interference scoring and mitigation: a batch task is classified by what it will use
(`classifier`), a machine is described by how many instances of which category it runs, decision trees
predict from that how much its services slow down (`predictor`, `score`), and a scheduler takes, of the machines it
prefers, the one with the lowest score (`scheduler`). `testbed` simulates what no public trace records: the response
times of services beside batch work.
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["InterferenceScore", "WithInterference"]
