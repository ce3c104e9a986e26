"""A policy that `tvwrl export` wrote, as a scheduler without PyTorch: ONNX Runtime computes its logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.agents.deterministic import Logits, Mask, Seen
from tvwrl.agents.exporting.exported_facts import Facts
from tvwrl.agents.exporting.onnx_file import AGAIN, metadata_of, read_onnx
from tvwrl.agents.observing import ObservingScheduler
from tvwrl.ec import Classes
from tvwrl.forecasting import Forecaster
from tvwrl.simulation import Scenario
from tvwrl.types import InputError

KINDS = {
    "grid": ("tensor(uint8)", 5),
    "queue": ("tensor(float)", 3),
    "backlog": ("tensor(float)", 2),
    "mask": ("tensor(bool)", 2),
    "forecast": ("tensor(float)", 3),
}  # input -> type in the file, number of axes


class Graph:
    """The network of an exported file, computed by one thread; it is sent to other processes as the file's content."""

    def __init__(self, content: bytes, where: str) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise InputError(f"{where} needs onnxruntime: pip install 'tvwrl[onnx]'") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # the network is small: threads would wait
        options.log_severity_level = 4  # errors are raised, and need not be printed as well
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's own kinds, which share no base
            raise InputError(f"{where} cannot be loaded: {_first_line(error)}; {AGAIN}") from None
        self._content, self.where = content, where

    def __getstate__(self) -> tuple[bytes, str]:
        return self._content, self.where

    def __setstate__(self, state: tuple[bytes, str]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def check_fits(self, shapes: dict[str, Any]) -> None:
        """Raise InputError unless it takes what an environment of those shapes shows, and returns logits."""
        wanted = {name for name in KINDS if name != "forecast" or shapes["shows"]["forecast"]}
        found = {one.name: (one.type, len(one.shape)) for one in self._session.get_inputs()}
        outputs = [(one.name, one.type) for one in self._session.get_outputs()]
        if found != {name: KINDS[name] for name in wanted} or outputs != [("logits", "tensor(float)")]:
            raise InputError(
                f"{self.where} takes {', '.join(found)} and returns {', '.join(name for name, _ in outputs)}: must be "
                f"{', '.join(sorted(wanted))} and logits; {AGAIN}"
            )

    def logits(self, seen: Seen, mask: Mask) -> Logits:
        """(n, actions). Raises InputError if they are not numbers, or not of that shape."""
        try:
            logits: Logits = self._session.run(["logits"], {**seen, "mask": mask})[0]
        except Exception as error:  # onnxruntime's own kinds, which share no base
            raise InputError(f"{self.where} failed: {_first_line(error)}; {AGAIN}") from None
        if logits.shape != mask.shape or not np.isfinite(logits).all():
            raise InputError(f"{self.where} gives logits that are not {mask.shape} finite numbers; {AGAIN}")
        return logits


class ExportedPolicy(ObservingScheduler):
    """Places with an exported policy, exactly as `PolicyScheduler` does with the checkpoint that it was made from.

    `facts`: what the file says of it; beside `scenario`, `classes` and `forecaster`, its units, resources and trace
    `graph`: its network
    """

    def __init__(self, facts: Facts, graph: Graph, name: str | None = None) -> None:
        super().__init__(name or facts.name, facts.scenario, facts.shapes, facts.any_machines, "policy")
        graph.check_fits(facts.shapes)
        self.facts, self._graph = facts, graph

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> ExportedPolicy:
        """The policy in a file's content. Raises InputError, which begins with `where`: see `load_exported`."""
        facts = Facts.from_texts(metadata_of(content, where), where)
        return cls(facts, Graph(content, where))

    @property
    def scenario(self) -> Scenario:
        """Of the environment that it was trained in."""
        return self.facts.scenario

    @property
    def classes(self) -> Classes:
        """The classes of workloads that it observes."""
        return self.facts.classes

    @property
    def forecaster(self) -> Forecaster | None:
        """Whose forecasts it observes."""
        return self.facts.forecaster

    def logits(self, seen: Seen, mask: Mask) -> Logits:
        """See `ObservingScheduler.logits`."""
        return self._graph.logits(seen, mask)


def load_exported(path: str | Path) -> ExportedPolicy:
    """The policy in the file `path` of `tvwrl export --format onnx`, named after its training run. No code of it runs.

    Raises InputError if onnxruntime is missing, and for a file that is missing, larger than any policy, truncated,
    damaged, not written by `tvwrl export`, of another format, or that needs other files or operators.

    >>> load_exported("policy.onnx").knowledge.group  # doctest: +SKIP
    'demand forecasts'
    """
    path = Path(path)
    content, texts = read_onnx(path)
    return ExportedPolicy(Facts.from_texts(texts, str(path)), Graph(content, str(path)))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
