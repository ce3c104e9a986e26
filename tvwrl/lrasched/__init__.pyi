from .advice import Advice as Advice, Asked as Asked, Prices as Prices, advise as advise
from .outlook import Outlook as Outlook, PerformanceModel as PerformanceModel
from .predictors import held_out_errors as held_out_errors, rmse as rmse, seconds_of_prediction as seconds_of_prediction
from .predictors import (
    Means as Means,
    PREDICTORS as PREDICTORS,
    Predictor as Predictor,
    both_means as both_means,
    factorization_machine as factorization_machine,
    folding_in as folding_in,
    matrix_factorization as matrix_factorization,
)
from .profiles import (
    Configuration as Configuration,
    Profiles as Profiles,
    read_configurations as read_configurations,
    read_profiles as read_profiles,
)
from .recommend_size import Sizing as Sizing, recommend_size as recommend_size
from .recommender import Goal as Goal, Recommendation as Recommendation
from .recommender import Recommender as Recommender
from .target import Target as Target
from .testbed import (
    CORES as CORES,
    MEMORY as MEMORY,
    SERVICES as SERVICES,
    SimulatedApplication as SimulatedApplication,
    configurations as configurations,
    draw_applications as draw_applications,
    profile as profile,
)
