"""`tvwrl what-if` with all rules that move pods, those of plans among them."""

from __future__ import annotations

from tvwrl.what_if.command import WhatIfSettings


def what_if(settings: WhatIfSettings) -> None:
    """Replay as `tvwrl.what_if.command.what_if` does. Raises InputError as it does."""
    import tvwrl.rebalance.move_rule  # noqa: F401 registers its rule
    import tvwrl.what_if.command as command

    command.what_if(settings)
