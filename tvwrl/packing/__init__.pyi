from .bounds import ScheduleBounds as ScheduleBounds, lower_bounds as lower_bounds
from .fit import fits as fits
