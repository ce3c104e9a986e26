"""Named tasks that never change, and tables that compare any scheduler with ours on them (docs/reference/tasks.md)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
