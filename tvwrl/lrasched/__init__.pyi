from .predictors import PREDICTORS as PREDICTORS
from .profiles import (
    Configuration as Configuration,
    Profiles as Profiles,
    read_configurations as read_configurations,
    read_profiles as read_profiles,
)
from .recommend_size import Sizing as Sizing, recommend_size as recommend_size
from .recommendation import Goal as Goal, Recommendation as Recommendation
from .recommender import Recommender as Recommender
