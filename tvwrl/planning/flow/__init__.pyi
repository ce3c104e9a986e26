from .folder import read_folder as read_folder
from .generated import generate as generate
from .problem import Assignment as Assignment, Bundles as Bundles, PlanningProblem as PlanningProblem
from .referee import validate as validate
from .registry import ALADDIN as ALADDIN, BASELINES as BASELINES, planner as planner
from .tianchi import read_tianchi as read_tianchi
