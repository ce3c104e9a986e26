"""Writes a trained policy to one ONNX file that runs elsewhere, with what it was made for.

`torch.onnx.export` has two exporters. The one used here (`dynamo=True`) keeps every size symbolic; the older one, which
is deprecated, writes reshapes that fail where no workload waits.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tvwrl import __version__
from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.deterministic import Seen
from tvwrl.agents.episodes import numbers_of
from tvwrl.agents.exportable import Exportable, exportable
from tvwrl.agents.exported import ExportedPolicy, Facts
from tvwrl.agents.networks import Policy
from tvwrl.runs import whole_file
from tvwrl.types import InputError

ORDER = ("grid", "queue", "backlog", "mask", "forecast")  # of inputs
OPSET = 20  # of ONNX; onnxruntime 1.18, the oldest that we take, reads 21
MOST_DIFFERENCE = 1e-4  # of logits, absolute up to 1 and relative above; rounding makes 1e-5 of large weights
STATES = 64  # compared, for each size of the cluster
FEW, MANY = 1, 33  # machines, where a policy works for any number


@dataclass(frozen=True)
class Export:
    """An exported policy, not yet written."""

    content: bytes
    facts: Facts
    difference: float  # largest of logits, from the policy's own, as a share of the logit where that is above 1
    states: int  # in which both were compared


def export_policy(checkpoint: Checkpoint, name: str) -> Export:
    """The policy of a checkpoint as the content of a file, compared with the policy itself in random states.

    `name`: of the training run. Raises InputError for a policy of DeepRM, if onnx, onnxscript or onnxruntime is
    missing, and if the logits of both differ.
    """
    policy = checkpoint.make_policy().eval() if checkpoint.config.policy != "deeprm" else None
    if policy is None:
        raise InputError(
            "a DeepRM policy cannot be exported: it chooses a workload in an environment of its own, and no machine; "
            "export a run of --policy shared or flat"
        )
    facts = Facts.of(checkpoint, name)
    module, given = exportable(policy), random_states(facts, facts.shapes["grid"][0], 3)
    inputs = tuple(torch.from_numpy(given[one]) for one in ORDER if one in given)
    with _quietly():
        content = _onnx(module, inputs, facts)
    difference, states = _compared(policy, content, facts)
    if not difference <= MOST_DIFFERENCE:
        raise InputError(
            f"the exported policy's logits differ by {difference:.2g} from the policy's own: please report this, with "
            "the versions that tvwrl doctor prints"
        )
    return Export(content, facts, difference, states)


def random_states(facts: Facts, machines: int, count: int, seed: int = 0) -> Seen:
    """Random observations of the shapes that the policy takes, and masks: arrays (count, ...) by name of the input.

    Some queues are empty, some machines switched off, and some loads exceed every machine.
    """
    rng, shapes = np.random.default_rng(seed), facts.shapes
    _, resources, history, columns = shapes["grid"]
    (places, width), classes = shapes["queue"], shapes["classes"]
    sizes = rng.integers(0, columns + 1, (count, machines, resources, 1, 1))
    sizes[:, 0] = np.maximum(sizes[:, 0], 1)  # in no environment are all machines switched off
    used = rng.integers(0, sizes + 1, (count, machines, resources, history, 1))
    label = rng.integers(1, classes + 2, (count, machines, resources, history, columns))
    label[label == classes + 1] = classes + 2  # background load
    column = np.arange(columns)
    grid = np.where(column < used, label, np.where(column < sizes, 0, classes + 1)).astype(np.uint8)
    queue = (3 * rng.random((count, places, width))).astype(np.float32)
    queue[..., 0] = rng.integers(1, classes + 1, (count, places))
    queue *= (np.arange(places) < rng.integers(0, places + 1, (count, 1)))[..., None]
    backlog = rng.integers(0, 50, (count, 1)).astype(np.float32)
    mask = rng.random((count, actions_for(shapes, machines))) < 0.8
    states: Seen = {"grid": grid, "queue": queue, "backlog": backlog, "mask": mask}
    if not (wide := shapes["shows"]["forecast"]):
        return states
    scale = rng.choice([0.0, 0.1, 0.5, 1.5], (count, 1, 1))
    return states | {"forecast": (scale * rng.random((count, machines, wide))).astype(np.float32)}


def actions_for(shapes: dict[str, Any], machines: int) -> int:
    """Number of actions in a cluster of `machines` machines."""
    places = shapes.get("places", 1)
    return int(places * machines + shapes["actions"] - places * shapes["grid"][0])


def _onnx(module: Exportable, inputs: tuple[Tensor, ...], facts: Facts) -> bytes:
    """The content of an ONNX file. What the exporter notes of its own source code and paths is left out."""
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise InputError(f"export needs {error.name}: pip install 'tvwrl[export]'") from None
    names = ORDER[: len(inputs)]
    batch, sizes = torch.export.Dim("batch"), {}
    if facts.any_machines:
        machines = torch.export.Dim("machines")
        places = facts.shapes.get("places", 1)
        sizes = {"grid": machines, "forecast": machines, "mask": places * machines + actions_for(facts.shapes, 0)}
    shapes = tuple({0: batch} | ({1: sizes[name]} if name in sizes else {}) for name in names)
    program = torch.onnx.export(
        module,
        inputs,
        dynamo=True,
        dynamic_shapes=shapes,
        input_names=list(names),
        output_names=["logits"],
        opset_version=OPSET,
        verbose=False,
    )
    assert program is not None
    model = program.model_proto
    model.producer_name, model.producer_version, model.doc_string = "tvwrl", __version__, ""
    for part in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output):
        del part.metadata_props[:]
        part.doc_string = ""
    del model.graph.value_info[:]
    for name, text in facts.to_texts().items():
        entry = model.metadata_props.add()
        entry.key, entry.value = name, text
    content: bytes = model.SerializeToString()
    return content


def _compared(policy: Policy, content: bytes, facts: Facts) -> tuple[float, int]:
    """The largest difference of logits, and in how many states the file and the policy were compared."""
    run = ExportedPolicy.from_bytes(content, "the exported policy").logits
    own, trained = numbers_of(policy), facts.shapes["grid"][0]
    worst, sizes = 0.0, sorted({FEW, trained, MANY}) if facts.any_machines else [trained]
    for seed, machines in enumerate(sizes):
        for part in (slice(0, 1), slice(1, STATES)):  # a batch of 1, and one of many
            seen = {name: array[part] for name, array in random_states(facts, machines, STATES, seed).items()}
            mask = seen.pop("mask")
            expected, found = own(seen, mask), run(seen, mask)
            worst = max(worst, float((np.abs(found - expected) / np.maximum(np.abs(expected), 1.0)).max()))
    return worst, STATES * len(sizes)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without what the exporter says of its own future."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def write_export(export: Export, file: Path) -> None:
    """Write the file, whole or not at all."""
    with whole_file(file) as partial:
        partial.write_bytes(export.content)
