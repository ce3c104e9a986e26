from . import (
    agents as agents,
    benchmark as benchmark,
    ec as ec,
    envs as envs,
    experiments as experiments,
    forecasting as forecasting,
    interference as interference,
    lrasched as lrasched,
    packing as packing,
    planning as planning,
    schedulers as schedulers,
    simulation as simulation,
    traces as traces,
)
from .agents.config import TrainConfig as TrainConfig
from .agents.policy_scheduler import load_policy as load_policy
from .benchmark.comparison import Comparison as Comparison, compare as compare
from .benchmark.submission import submit as submit
from .envs.problem import Problem as Problem
from .experiments.evaluated import Evaluation as Evaluation
from .library.environments import make as make, make_vec as make_vec
from .library.evaluating import evaluate as evaluate
from .library.planning import Plans as Plans, place as place, plan as plan
from .library.training import TrainingRun as TrainingRun, train as train
from .lrasched.recommend_size import Sizing as Sizing, recommend_size as recommend_size
from .schedulers.base import Scheduler as Scheduler
from .schedulers.head_of_queue import HeadOfQueue as HeadOfQueue
from .schedulers.registry import list_schedulers as list_schedulers, make_scheduler as make_scheduler
from .simulation.scenario import Scenario as Scenario
from .traces.catalogue import open_trace as open_trace
from .types import InputError as InputError, Trace as Trace

SUPERSEDED_TASKS: tuple[str, ...]
TASK_NAMES: tuple[str, ...]
__version__: str
