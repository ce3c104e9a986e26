from .base import Forecaster as Forecaster, training_windows as training_windows
from .beginnings import Beginnings as Beginnings, Outcomes as Outcomes
from .files import read_forecaster as read_forecaster, write_forecaster as write_forecaster
from .network import NetworkForecaster as NetworkForecaster
from .registry import make_forecaster as make_forecaster
from .segments import SEGMENTS as SEGMENTS, Distribution as Distribution, Forecast as Forecast
