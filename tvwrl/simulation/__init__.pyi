from .cluster import Cluster as Cluster
from .scenario import Scenario as Scenario
from .simulation import Simulation as Simulation
