from .admission import admit as admit, volume_bound as volume_bound
from .best import SEARCH as SEARCH, search as search
from .bounds_on_machines import by_volume as by_volume
from .bounds_on_machines import PlanBound as PlanBound, bound_or_reason as bound_or_reason, lower_bound as lower_bound
from .explored import FILE as FILE, explore as explore
from .flow.aladdin import ALADDIN as ALADDIN, BASELINES as BASELINES
from .handover import play as play
from .instance import Affinity as Affinity, Fleet as Fleet, Instance as Instance, check_fits as check_fits
from .rules import TwoPhase as TwoPhase
from .planners import SIZES as SIZES
from .milp import solve as solve
from .pictures import (
    ABOVE as ABOVE,
    BETTER as BETTER,
    SECONDS as SECONDS,
    SHORTEST as SHORTEST,
    family_of as family_of,
    rows_of as rows_of,
    title_of_planner as title_of_planner,
)
from .plan import Plan as Plan
from .plan_file import read_plans as read_plans, read_running as read_running, write_plans as write_plans
from .problem import Bundles as Bundles, PlanningProblem as PlanningProblem
from .referee import utilisation as utilisation, validate as validate
from .registry import (
    Abilities as Abilities,
    IMPROVED as IMPROVED,
    PLANNERS as PLANNERS,
    abilities as abilities,
    by_rule as by_rule,
    check_planner as check_planner,
    make_plan as make_plan,
)
from .results import Result as Result, Results as Results, validated as validated
from .rules import RULES as RULES
from .sources.generated import Drawn as Drawn
from .sources.folder import (
    APPLICATIONS as APPLICATIONS,
    MACHINES as MACHINES,
    is_folder as is_folder,
    read_folder as read_folder,
)
from .sources.generated import generate_instance as generate_instance
from .sources.generated import DEMAND as DEMAND, generate_cluster as generate_cluster, usual_replicas as usual_replicas
from .sources.lists import read_applications as read_applications, read_machines as read_machines
from .sources.open_problem import is_trace as is_trace, open_instance as open_instance, windowed as windowed
from .sources.open_problem import (
    GENERATED as GENERATED,
    KINDS as KINDS,
    Reading as Reading,
    open_problem as open_problem,
)
from .sources.tianchi import read_tianchi as read_tianchi, scaled as scaled
from .stopping import about_stopping as about_stopping
from .suite import (
    Budget as Budget,
    describe as describe,
    measured as measured,
    run_planners as run_planners,
    title_of_problem as title_of_problem,
    warm_up as warm_up,
)
