from .cluster_state import Budget as Budget, ClusterState as ClusterState, Term as Term
from .kubernetes_objects import COMMAND as COMMAND, Objects as Objects, read_objects as read_objects
from .plan_of_moves import MovePlan as MovePlan, PodMove as PodMove
