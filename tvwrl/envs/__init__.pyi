from .action_masks import action_masks as action_masks
from .base import (
    build_simulation as build_simulation,
    check_actions as check_actions,
    check_options as check_options,
    check_sequence as check_sequence,
    observation as observation,
    observation_space as observation_space,
    picture as picture,
)
from .observations import (
    About as About,
    Observed as Observed,
    Part as Part,
    VectorObserved as VectorObserved,
    View as View,
    check_parts as check_parts,
    needs_of as needs_of,
    with_needs as with_needs,
)
from .placement import Observation as Observation, PlacementEnv as PlacementEnv
from .placement_vector import PlacementVectorEnv as PlacementVectorEnv
from .problem import Problem as Problem
from .rendering import draw_cluster as draw_cluster, label_colours as label_colours
from .rewards import Paid as Paid, Reward as Reward, VectorPaid as VectorPaid, with_unit as with_unit
