from .advice import advise as advise
from .bounds.lower_bound import lower_bound as lower_bound
from .flow.registry import ALADDIN as ALADDIN, BASELINES as BASELINES
from .instance import Affinity as Affinity, Fleet as Fleet, Instance as Instance
from .plan import Plan as Plan
from .plan_file import read_plans as read_plans, write_plans as write_plans
from .problem import Bundles as Bundles, PlanningProblem as PlanningProblem
from .referee import validate as validate
from .registry import PLANNERS as PLANNERS, Abilities as Abilities, abilities as abilities, make_plan as make_plan
from .rules import RULES as RULES
from .best import search as search
from .sources.folder import read_folder as read_folder
from .sources.open_instance import open_instance as open_instance
from .sources.open_problem import open_problem as open_problem
