from .checkpoint import Checkpoint as Checkpoint, find_checkpoint as find_checkpoint
from .config import PRESETS as PRESETS, TrainConfig as TrainConfig
from .deeprm.scheduler import DeepRM as DeepRM, load_deeprm as load_deeprm
from .exporting.exported import ExportedPolicy as ExportedPolicy, load_exported as load_exported
from .policy_scheduler import PolicyScheduler as PolicyScheduler, load_policy as load_policy
from .training import Trainer as Trainer
