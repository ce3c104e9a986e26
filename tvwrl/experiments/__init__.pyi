from .training_runs import DEEPRM as DEEPRM
from .engine import (
    Cell as Cell,
    Rows as Rows,
    RowsCell as RowsCell,
    as_folder as as_folder,
    complete as complete,
    read_cell_rows as read_cell_rows,
)
from .episode_rows import (
    UNPLACED as UNPLACED,
    complete_only as complete_only,
    incomplete as incomplete,
    incomplete_by as incomplete_by,
    no_value as no_value,
    read_rows as read_rows,
    table_of as table_of,
)
from .evaluate_command import (
    ComparisonSettings as ComparisonSettings,
    Environment as Environment,
    compare_schedulers as compare_schedulers,
)
from .evaluation import Evaluation as Evaluation
from .evaluation import (
    DEFAULT_SCHEDULERS as DEFAULT_SCHEDULERS,
    EPISODES as EPISODES,
    EpisodesCell as EpisodesCell,
    Player as Player,
    EvaluationSetup as EvaluationSetup,
    with_wanted_forecasts as with_wanted_forecasts,
    evaluate as evaluate,
)
from .place_command import PlacementSettings as PlacementSettings, place as place
from .plots import (
    mean_point as mean_point,
    plot_comparison as plot_comparison,
    plot_lines as plot_lines,
    plot_places as plot_places,
)
from .provision_command import PlanningSettings as PlanningSettings, plan_machines as plan_machines
from .reproducing import (
    Report as Report,
    RunOptions as RunOptions,
    check_seeds as check_seeds,
    commands as commands,
    reproduce as reproduce,
)
from .results.study import COMMANDS as COMMANDS
from .statistics import column as column, distinct as distinct, select as select
from .tuned_moves import tuned_settings as tuned_settings
from .training_cells import Scale as Scale, describe_training as describe_training
from .scheduler_names import (
    is_of_file as is_of_file,
    origin_of as origin_of,
    parts_of as parts_of,
    scheduler_of as scheduler_of,
    warn_of_foreign_scores as warn_of_foreign_scores,
)
from .statistics import (
    Estimate as Estimate,
    NO_ESTIMATE as NO_ESTIMATE,
    bootstrap_interval as bootstrap_interval,
    crossed_estimate as crossed_estimate,
    estimate_of_one as estimate_of_one,
    estimates_by_column as estimates_by_column,
    interval_name as interval_name,
    mean as mean,
    mean_with_interval as mean_with_interval,
    mean_with_range as mean_with_range,
    paired_bootstrap as paired_bootstrap,
    paired_difference as paired_difference,
    point_estimate as point_estimate,
    share_closed as share_closed,
    stratified_bootstrap as stratified_bootstrap,
    with_interval as with_interval,
)
from .tables import (
    CEILING as CEILING,
    FLOOR as FLOOR,
    comparison_table as comparison_table,
    terminal_table as terminal_table,
)
from .train_command import train as train
from .train_command import TrainingSettings as TrainingSettings
from .training_cells import (
    Changes as Changes,
    Column as Column,
    PUBLISHED_CLASSES as PUBLISHED_CLASSES,
    Setup as Setup,
    TEST_SEED as TEST_SEED,
    TVW_RL as TVW_RL,
    cells_of as cells_of,
    fitted as fitted,
    opened as opened,
    read_columns as read_columns,
    trained_column as trained_column,
)
from .training_runs import pass_on_signal as pass_on_signal
from .train_command import begin as begin, compare_with_heuristics as compare_with_heuristics, take_up as take_up
