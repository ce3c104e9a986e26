"""A scheduler in a real cluster: Kubernetes' scheduler extender over HTTP."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["open_policy"]
