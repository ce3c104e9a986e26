from .base import (
    Forecaster as Forecaster,
    Parameters as Parameters,
    WINDOWS as WINDOWS,
    training_windows as training_windows,
)
from .baselines import FORECASTERS as FORECASTERS, REFERENCE as REFERENCE, make_forecaster as make_forecaster
from .beginnings import (
    Beginnings as Beginnings,
    LONGEST as LONGEST,
    Outcomes as Outcomes,
    masked as masked,
    prefix_features as prefix_features,
)
from .files import (
    FILE as FILE,
    forecaster_file as forecaster_file,
    read_forecaster as read_forecaster,
    write_forecaster as write_forecaster,
)
from .lstnet import (
    StandardisedSeries as StandardisedSeries,
    correlations as correlations,
    evaluate_forecaster as evaluate_forecaster,
    train_forecaster as train_forecaster,
)
from .lstnet_settings import ForecastSettings as ForecastSettings, MIN_FORECASTS as MIN_FORECASTS
from .network import NetworkForecaster as NetworkForecaster
from .perceptron import (
    Layers as Layers,
    forward as forward,
    layers_from_lists as layers_from_lists,
    layers_to_lists as layers_to_lists,
    train_layers as train_layers,
)
from .perfect import with_perfect_forecasts as with_perfect_forecasts
from .pretrained import fit_or_adapt as fit_or_adapt, shipped_forecaster as shipped_forecaster
from .scaled import (
    empty_table as empty_table,
    in_steps as in_steps,
    scaled_forecasts as scaled_forecasts,
    scaled_table as scaled_table,
    unchanging as unchanging,
)
from .scores import (
    SHARES as SHARES,
    Scores as Scores,
    judged_beginnings as judged_beginnings,
    score as score,
    skill as skill,
)
from .segments import (
    Distribution as Distribution,
    Forecast as Forecast,
    ROUNDING as ROUNDING,
    SEGMENTS as SEGMENTS,
    columns as columns,
)
