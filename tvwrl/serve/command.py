"""Runs the scheduler extender for `tvwrl serve`."""

from __future__ import annotations

from tvwrl.serve.options import ServeSettings
from tvwrl.types import InputError


def serve(settings: ServeSettings) -> None:
    """Serve until SIGTERM or Ctrl-C. Raises InputError for what cannot be served."""
    settings.check()
    try:
        from tvwrl.serve.service import Service
    except ImportError as error:
        if error.name is None or error.name.startswith("tvwrl"):
            raise
        raise InputError(f"tvwrl serve needs {error.name}: pip install 'tvwrl[serve]'") from None
    Service(settings).run()
