"""What fits: the one rule, load booked ahead, the compiled loops of planners, and lower bounds on machines."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["ScheduleBounds", "fits", "lower_bounds"]
