"""An episode, or a plan, in one HTML file: what happened, why, and what every alternative would have cost."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["Recording", "draw_report", "record"]
