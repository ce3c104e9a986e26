"""Learnt schedulers: networks, REINFORCE and PPO, the head start, online learning, DeepRM, checkpoints."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [
    "PRESETS",
    "Checkpoint",
    "DeepRM",
    "ExportedPolicy",
    "FlatPolicy",
    "MachineFeatures",
    "MachinePolicy",
    "MaskableMachinePolicy",
    "PairPolicy",
    "Policy",
    "PolicyScheduler",
    "SB3VecEnv",
    "SharedPolicy",
    "TrainConfig",
    "Trainer",
    "find_checkpoint",
    "load",
    "load_deeprm",
    "load_exported",
    "load_policy",
    "shipped_agents",
]
