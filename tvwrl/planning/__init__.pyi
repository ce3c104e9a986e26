from .advice import advise as advise
from .best import plan_best as plan_best
from .bounds.lower_bound import lower_bound as lower_bound
from .instance import Affinity as Affinity, Fleet as Fleet, Instance as Instance
from .plan import Plan as Plan
from .plan_file import read_plans as read_plans, write_plans as write_plans
from .referee import validate as validate
from .registry import ALGORITHMS as ALGORITHMS, planner as planner
from .sources.open_instance import open_instance as open_instance
