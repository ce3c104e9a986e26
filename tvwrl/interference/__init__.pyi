from .batch_tasks import (
    ARRIVALS_FILE as ARRIVALS_FILE,
    BatchTasks as BatchTasks,
    USAGE_FILE as USAGE_FILE,
    numbers as numbers,
    read_arrivals as read_arrivals,
    read_usage as read_usage,
)
from .categories import CLASSES as CLASSES, Thresholds as Thresholds, category_of as category_of
from .classifier import TaskClassifier as TaskClassifier, declared_features as declared_features
from .observations import (
    CATEGORIES as CATEGORIES,
    Levels as Levels,
    MonitoredMachines as MonitoredMachines,
    Observations as Observations,
    uniform_machines as uniform_machines,
)
from .placement_kernels import (
    LOAD_AWARE as LOAD_AWARE,
    RANDOM as RANDOM,
    RISK_BALANCING as RISK_BALANCING,
    SPREAD as SPREAD,
    STACK as STACK,
    TARGET_LOAD_PACKING as TARGET_LOAD_PACKING,
)
from .predictor import (
    DEPTH as DEPTH,
    LEAF as LEAF,
    LevelPredictor as LevelPredictor,
    services_with_levels as services_with_levels,
)
from .scheduler import CANDIDATES as CANDIDATES, WithInterference as WithInterference
from .score import (
    InterferenceScore as InterferenceScore,
    STALE_AFTER as STALE_AFTER,
    WEIGHTINGS as WEIGHTINGS,
    mean_levels as mean_levels,
    service_weights as service_weights,
)
from .score_kernels import UTILISATION_ALONE as UTILISATION_ALONE
from .testbed.arrivals import (
    Arrivals as Arrivals,
    kept_share as kept_share,
    read_hour as read_hour,
    replay_hour as replay_hour,
)
from .testbed.deployment import (
    Deployment as Deployment,
    LEAST_SERVICES as LEAST_SERVICES,
    draw_deployment as draw_deployment,
)
from .testbed.episodes import (
    TwoDays as TwoDays,
    episode_snapshots as episode_snapshots,
    observe_days as observe_days,
)
from .testbed.instance_kernels import DEFAULT as DEFAULT
from .testbed.laws import (
    ANCHORS as ANCHORS,
    Curve as Curve,
    ERMS_SENSITIVITY as ERMS_SENSITIVITY,
    LAWS as LAWS,
    LEAST_SENSITIVE as LEAST_SENSITIVE,
    NGINX_BANDWIDTH as NGINX_BANDWIDTH,
    NGINX_CPU as NGINX_CPU,
    QUANTILES as QUANTILES,
    ResponseModel as ResponseModel,
    TAOBENCH_BANDWIDTH as TAOBENCH_BANDWIDTH,
    TAOBENCH_CACHE as TAOBENCH_CACHE,
    draw_response_model as draw_response_model,
)
from .testbed.simulation import (
    PlacementRule as PlacementRule,
    Snapshots as Snapshots,
    simulate as simulate,
    take_snapshots as take_snapshots,
)
from .training import (
    EPISODES as EPISODES,
    TrainedScore as TrainedScore,
    check_training as check_training,
    describe_trace as describe_trace,
    train_on_trace as train_on_trace,
)
