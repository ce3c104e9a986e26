"""Gymnasium environments: thin shells round the simulation."""

from tvwrl.envs.placement import PlacementEnv
from tvwrl.envs.placement_vector import PlacementVectorEnv

__all__ = ["PlacementEnv", "PlacementVectorEnv"]
