from .admission import admit as admit, volume_bound as volume_bound
from .base import Abilities as Abilities
from .base import IMPROVED as IMPROVED, REGISTERED as REGISTERED, SEARCH as SEARCH
from .best import search as search
from .bounds_on_machines import by_volume as by_volume
from .bounds_on_machines import PlanBound as PlanBound, bound_or_reason as bound_or_reason, lower_bound as lower_bound
from .explored import FILE as FILE, Wording as Wording, explore as explore
from .flow.aladdin import arrival_order as arrival_order
from .flow.network import FlowNetwork as FlowNetwork, FlowSettings as FlowSettings
from .handover import Planned as Planned, hand_over as hand_over, play as play
from .instance import Affinity as Affinity, Fleet as Fleet, Instance as Instance, check_fits as check_fits
from .planners import SIZES as SIZES
from .lrasched import TwoPhase as TwoPhase
from .milp import solve as solve
from .plan import Plan as Plan
from .plan_file import about_stopping as about_stopping
from .plan_file import read_plans as read_plans, read_running as read_running, write_plans as write_plans
from .problem import Bundles as Bundles, PlanningProblem as PlanningProblem
from .referee import utilisation as utilisation, validate as validate
from .registry import (
    PLANNERS as PLANNERS,
    abilities as abilities,
    by_rule as by_rule,
    check_planner as check_planner,
    family_of as family_of,
    make_plan as make_plan,
    title_of_planner as title_of_planner,
)
from .results import ABOVE as ABOVE, BETTER as BETTER, SECONDS as SECONDS, SHORTEST as SHORTEST, rows_of as rows_of
from .results import Result as Result, Results as Results, validated as validated
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
from .suite import (
    Budget as Budget,
    describe as describe,
    measured as measured,
    run_planners as run_planners,
    title_of_problem as title_of_problem,
    warm_up as warm_up,
)
