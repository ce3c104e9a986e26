from .placement import PlacementEnv as PlacementEnv
from .placement_vector import PlacementVectorEnv as PlacementVectorEnv
from .problem import Problem as Problem
