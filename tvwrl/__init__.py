"""TVW-RL and relatives: placement of long-running workloads whose resource usage changes over time.

Importing it registers `tvwrl/Placement-v0` with Gymnasium; everything heavy is imported where it is used.
"""

from gymnasium.envs.registration import register, registry

__version__ = "0.1.0"

if "tvwrl/Placement-v0" not in registry:
    register(
        id="tvwrl/Placement-v0",
        entry_point="tvwrl.envs:PlacementEnv",
        vector_entry_point="tvwrl.envs:PlacementVectorEnv",
    )
