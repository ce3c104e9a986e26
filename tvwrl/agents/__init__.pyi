from .checkpoint import Checkpoint as Checkpoint, find_checkpoint as find_checkpoint
from .config import PRESETS as PRESETS, TrainConfig as TrainConfig, preset_for as preset_for
from .deeprm import DeepRM as DeepRM, load_deeprm as load_deeprm
from .export import Export as Export, export_policy as export_policy, write_export as write_export
from .exported import ExportedPolicy as ExportedPolicy, load_exported as load_exported
from .exported import Facts as Facts
from .exported import is_of_export as is_of_export
from .networks import FlatPolicy as FlatPolicy, PairPolicy as PairPolicy, Policy as Policy, SharedPolicy as SharedPolicy
from .networks import allow_network as allow_network, check_device as check_device, check_network as check_network
from .machine_policy import MachineFeatures as MachineFeatures, MachinePolicy as MachinePolicy
from .maskable_policy import MaskableMachinePolicy as MaskableMachinePolicy
from .observing import ObservingScheduler as ObservingScheduler
from .online import ONLINE as ONLINE, OnlineLearner as OnlineLearner, Phase as Phase, play_frozen as play_frozen
from .online_config import OnlineConfig as OnlineConfig
from .exported import in_a_cluster as in_a_cluster, open_policy as open_policy
from .shipped import is_shipped as is_shipped, load as load, located as located, shipped_agents as shipped_agents
from .policy_scheduler import PolicyScheduler as PolicyScheduler, load_policy as load_policy
from .sb3_vec_env import SB3VecEnv as SB3VecEnv
from .head_start import check_start as check_start, labels_of_start as labels_of_start
from .training import open_others as open_others
from .training import INITIAL_POLICY as INITIAL_POLICY, Trainer as Trainer
from .value_settings import PolicySettings as PolicySettings, ValueSettings as ValueSettings
from .value_learning import learn_value as learn_value
from .move_policy_gradient import learn_policy as learn_policy
from .move_rule_search import learn_rule as learn_rule
