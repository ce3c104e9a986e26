from .cluster_state import Budget as Budget, ClusterState as ClusterState, Term as Term
from .kubernetes_objects import Objects as Objects, read_objects as read_objects
from .kubernetes_state import read_state as read_state, state_of as state_of
from .plan_of_moves import MovePlan as MovePlan, PodMove as PodMove
from .referee import faults as faults
