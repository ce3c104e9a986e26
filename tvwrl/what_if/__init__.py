"""What a recorded cluster would have needed under other schedulers (docs/how-to/what-if.md)."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [
    "Compared",
    "Outcome",
    "Placed",
    "Recorded",
    "Replay",
    "Trust",
    "compare",
    "read_csv_record",
    "read_prometheus_record",
    "shadow_placements",
]
