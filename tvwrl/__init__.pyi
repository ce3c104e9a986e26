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
from .agents import TrainConfig as TrainConfig
from .agents import load_policy as load_policy
from .benchmark import Comparison as Comparison, compare as compare
from .benchmark import submit as submit
from .envs import Problem as Problem
from .experiments import Evaluation as Evaluation
from .library.environments import make as make, make_vec as make_vec
from .library.evaluating import evaluate as evaluate
from .library.planning import Plans as Plans, place as place, plan as plan
from .library.training import TrainingRun as TrainingRun, train as train
from .lrasched import Sizing as Sizing, recommend_size as recommend_size
from .schedulers import Scheduler as Scheduler
from .schedulers import HeadOfQueue as HeadOfQueue
from .schedulers import list_schedulers as list_schedulers, make_scheduler as make_scheduler
from .simulation import Scenario as Scenario
from .traces import open_trace as open_trace
from .types import InputError as InputError, Trace as Trace

SUPERSEDED_TASKS: tuple[str, ...]
TASK_NAMES: tuple[str, ...]
__version__: str
