"""A policy that `tvwrl export` wrote, as a scheduler without PyTorch: ONNX Runtime computes its logits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl import __version__
from tvwrl.agents.acting import Logits, Seen
from tvwrl.agents.observing import ObservingScheduler, Trained, environment_signature
from tvwrl.agents.protocol_buffers import fields_of
from tvwrl.agents.split_graph import GRAPH, INITIALIZERS, NODES, SplitGraph
from tvwrl.ec import Classes, classes_from
from tvwrl.forecasting import Forecaster, NetworkForecaster
from tvwrl.schedulers import knowledge_of
from tvwrl.simulation import Mask, Scenario
from tvwrl.types import Float, InputError

if TYPE_CHECKING:
    from tvwrl.agents.checkpoint import Checkpoint


PREFIX = "tvwrl."  # of the names of our metadata
MOST_BYTES = 256 * 2**20  # a policy has well below 1 MiB
STANDARD = (b"", b"ai.onnx")
AGAIN = "write it again with tvwrl export"
# Numbers of fields
OPSETS, METADATA, TRAINING, FUNCTIONS = 8, 14, 20, 25  # of a model
SPARSE = 15  # of a graph
ATTRIBUTES, NODE_DOMAIN, KIND = 5, 7, 4  # of a node
TENSOR, SUBGRAPH, TENSORS, SUBGRAPHS, SPARSE_TENSOR, SPARSE_TENSORS = 5, 6, 10, 11, 22, 23  # of an attribute
EXTERNAL_DATA, DATA_LOCATION = 13, 14  # of a tensor


def read_onnx(path: Path) -> tuple[bytes, dict[str, str]]:
    """The content of an ONNX file, which is safe to load, and its metadata.

    Raises InputError for a file that is missing, too large, truncated or no ONNX, and for what is refused.
    """
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise InputError(f"{path} has {size:,} bytes: an exported policy has at most {MOST_BYTES:,}; {AGAIN}")
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; {AGAIN}") from None
    return content, metadata_of(content, str(path))


def is_of_export(path: Path) -> bool:
    """Whether a file says that `tvwrl export` wrote it; False for one that cannot be read, or is refused."""
    try:
        return PREFIX + "format" in read_onnx(path)[1]
    except InputError:
        return False


def metadata_of(content: bytes, where: str) -> dict[str, str]:
    """The metadata of an ONNX model. Raises InputError, which begins with `where`, as `read_onnx` does."""
    try:
        return _checked(content)
    except InputError as error:
        raise InputError(f"{where} {error}; {AGAIN}") from None
    except (ValueError, IndexError):
        raise InputError(f"{where} is not an ONNX file, or was cut off; {AGAIN}") from None


def _checked(content: bytes) -> dict[str, str]:
    found, graphs = {}, 0
    for number, value in fields_of(content):
        if number == GRAPH:
            graphs += 1
            _check_graph(_inner(value))
        elif number == OPSETS:
            _check_domain(_only(value, 1))
        elif number == METADATA:
            found[_only(value, 1).decode()] = _only(value, 2).decode()
        elif number in (TRAINING, FUNCTIONS):
            raise InputError("holds functions or training steps, which a policy does not need")
    if graphs != 1:
        raise ValueError("no graph")
    return found


def _check_graph(content: bytes) -> None:
    for number, value in fields_of(content):
        if number == INITIALIZERS:
            _check_tensor(_inner(value))
        elif number == SPARSE:
            raise InputError("holds sparse tensors, which a policy does not need")
        elif number == NODES:
            _check_node(_inner(value))


def _check_node(content: bytes) -> None:
    for number, value in fields_of(content):
        if number == NODE_DOMAIN:
            _check_domain(_inner(value))
        elif number == ATTRIBUTES:
            for part, inside in fields_of(_inner(value)):
                if part in (TENSOR, TENSORS):
                    _check_tensor(_inner(inside))
                elif part in (SUBGRAPH, SUBGRAPHS, SPARSE_TENSOR, SPARSE_TENSORS):
                    raise InputError("holds loops, branches or sparse tensors, which a policy does not need")


def _check_tensor(content: bytes) -> None:
    for number, value in fields_of(content):
        if number == EXTERNAL_DATA or (number == DATA_LOCATION and value != 0):
            raise InputError("takes numbers from another file, which is refused")


def _check_domain(domain: bytes) -> None:
    if domain not in STANDARD:
        name = domain[:40].decode(errors="replace")
        raise InputError(f"uses operators of {name!r}, which are not standard and are refused")


def _only(value: int | bytes, wanted: int) -> bytes:
    """The last field of that number in a message of texts; empty if there is none."""
    return next(
        (_inner(inside) for number, inside in reversed(list(fields_of(_inner(value)))) if number == wanted), b""
    )


def _inner(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes belong")
    return value


FORMAT = 1
DAMAGE = (AttributeError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError, InputError)
TRACE = ("name", "source", "hash", "slot_seconds")  # what to open it by may be a path, and stays where it is


@dataclass(frozen=True)
class Facts(Trained):
    """What an exported file says of its policy."""

    name: str  # of the training run
    policy: str  # flat or shared
    scenario: Scenario  # that it was trained in
    shapes: dict[str, Any]  # see `shapes_of`
    classes: Classes
    forecaster: Forecaster | None  # without the windows that it learnt from, so that it cannot sample
    resources: tuple[str, ...]
    unit: tuple[float, ...]  # input value of one unit per resource
    trace: dict[str, Any]  # see `TRACE`

    @classmethod
    def of(cls, checkpoint: Checkpoint, name: str) -> Facts:
        """Those of a checkpoint."""
        given = checkpoint.trace
        return cls(
            name=name,
            policy=checkpoint.config.policy,
            scenario=checkpoint.config.scenario,
            shapes=checkpoint.shapes,
            classes=checkpoint.classes,
            forecaster=checkpoint.forecaster,
            resources=tuple(checkpoint.resources),
            unit=tuple(checkpoint.unit),
            trace={field: given.get(field) for field in TRACE},
        )

    @property
    def any_machines(self) -> bool:
        """Whether the policy can play on another number of machines."""
        return self.policy != "flat"

    @property
    def called(self) -> str:
        """See `MadeFor`."""
        return f"policy '{self.name}'"

    def to_texts(self) -> dict[str, str]:
        """Field -> JSON, to be put into a file."""
        knowledge, forecaster = knowledge_of(self.scenario, self.forecaster), None
        if self.forecaster is not None:  # without the windows that it learnt from, and the copies that forecast those
            forecaster = _single(self.forecaster.to_dict() | {"learnt": None, "without": {}})
        content = {
            "format": FORMAT,
            "version": __version__,
            "name": self.name,
            "policy": self.policy,
            "scenario": asdict(self.scenario),
            "signature": environment_signature(self.shapes, self.scenario),
            "shapes": self.shapes,
            "classes": self.classes.to_dict(),
            "forecaster": forecaster,
            "resources": self.resources,
            "unit": self.unit,
            "knowledge": {"group": knowledge.group, "note": knowledge.note},
            "trace": self.trace,
        }
        return {PREFIX + field: json.dumps(value, separators=(",", ":")) for field, value in content.items()}

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], where: str) -> Facts:
        """The inverse of `to_texts`. Raises InputError, which begins with `where`, for what is foreign or damaged."""
        if PREFIX + "format" not in texts:
            raise InputError(
                f"{where} is not a policy that tvwrl exported: its metadata lacks '{PREFIX}format'; write one with "
                "tvwrl export RUN"
            )
        try:
            content = {name.removeprefix(PREFIX): json.loads(text) for name, text in texts.items() if PREFIX in name}
            if content["format"] != FORMAT:
                raise InputError(
                    f"{where} was written by tvwrl {content.get('version', '?')} in export format {content['format']}; "
                    f"this is tvwrl {__version__}, which reads format {FORMAT}: export the run again"
                )
            forecaster = content["forecaster"]
            facts = cls(
                name=str(content["name"]),
                policy=content["policy"],
                scenario=Scenario(**content["scenario"]),
                shapes=content["shapes"],
                classes=classes_from(content["classes"]),
                forecaster=None if forecaster is None else NetworkForecaster.from_dict(forecaster),
                resources=tuple(map(str, content["resources"])),
                unit=tuple(map(float, content["unit"])),
                trace=content["trace"],
            )
            facts._check(content["signature"])
        except DAMAGE as error:
            if isinstance(error, InputError) and str(error).startswith(where):
                raise
            said = f"{type(error).__name__} {error}".splitlines()[0][:200]
            raise InputError(f"{where} is damaged: {said}; export the run again") from None
        return facts

    def _check(self, signature: dict[str, Any]) -> None:
        """Raise ValueError or TypeError for facts that contradict one another."""
        machines, resources, history, columns = (int(size) for size in self.shapes["grid"])
        if self.policy not in ("flat", "shared"):
            raise ValueError(f"its policy is {self.policy!r}")
        if environment_signature(self.shapes, self.scenario) != signature:
            raise ValueError("its shapes and its scenario do not make its signature")
        if not min(machines, history, columns) >= 1 or resources != len(self.resources) or resources != len(self.unit):
            raise ValueError(f"its shapes are of {resources} resources, its names {self.resources}")
        if not (np.isfinite(self.unit).all() and min(self.unit) > 0):
            raise ValueError(f"its unit is {self.unit}")
        if not {"name", "hash"} <= set(self.trace):
            raise ValueError("its trace has no name or hash")


DOUBLE = ("trust", "drift")  # parts of a forecaster that are of double precision


def _single(value: Any) -> Any:
    """The same with floats of as many digits as single precision has, in which the weights are: half the text."""
    if isinstance(value, dict):
        return {name: part if name in DOUBLE else _single(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_single(part) for part in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


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


KINDS = {
    "grid": ("tensor(uint8)", 5),
    "queue": ("tensor(float)", 3),
    "backlog": ("tensor(float)", 2),
    "mask": ("tensor(bool)", 2),
    "forecast": ("tensor(float)", 3),
}  # input -> type in the file, number of axes


def _session(content: bytes, where: str) -> Any:
    """A session of onnxruntime. Raises InputError, which begins with `where`."""
    try:
        import onnxruntime
    except ImportError:
        raise InputError(f"{where} needs onnxruntime: pip install 'tvwrl[onnx]'") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # the network is small: threads would wait
    options.log_severity_level = 4  # errors are raised, and need not be printed as well
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own kinds, which share no base
        raise InputError(f"{where} cannot be loaded: {_first_line(error)}; {AGAIN}") from None


class Graph:
    """The network of an exported file, computed by one thread; it is sent to other processes as the file's content."""

    def __init__(self, content: bytes, where: str) -> None:
        self._session = _session(content, where)
        self._split: SplitGraph | None = None
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

    def remember_machines(self, facts: Facts) -> None:
        """See `ExportedPolicy.remember_machines`."""

        def trial(machines: int) -> Seen:
            states = random_states(facts, machines, 1)
            if "forecast" in states:  # which may be 0 in a random state
                states["forecast"] = np.random.default_rng(0).random(states["forecast"].shape, np.float32)
            return states

        try:
            self._split = SplitGraph(self._content, trial, lambda content: _session(content, self.where))
        except Exception:  # of onnxruntime, for a graph that cannot be divided so: it is computed as a whole
            self._split = None

    def logits(self, seen: Seen, mask: Mask) -> Logits:
        """(n, actions). Raises InputError if they are not numbers, or not of that shape."""
        inputs = {**seen, "mask": mask}
        try:
            logits: Logits = (
                self._session.run(["logits"], inputs)[0]
                if self._split is None or len(mask) > 1
                else self._split.run(inputs)
            )
        except Exception as error:  # onnxruntime's own kinds, which share no base
            raise InputError(f"{self.where} failed: {_first_line(error)}; {AGAIN}") from None
        if logits.shape != mask.shape or not np.isfinite(logits).all():
            raise InputError(f"{self.where} gives logits that are not {mask.shape} finite numbers; {AGAIN}")
        return logits


class ExportedPolicy(ObservingScheduler):
    """Places with an exported policy, exactly as `PolicyScheduler` does with the checkpoint that it was made from.

    Parameters
    ----------
    facts : Facts
        What the file says of it; beside `scenario`, `classes` and `forecaster`, its units, resources and trace.
    graph : Graph
        Its network.
    name : str, optional
        Of the scheduler; default: that of the training run.

    Examples
    --------
    >>> load_exported("policy.onnx")  # doctest: +SKIP
    <ExportedPolicy name='google', knows='demand forecasts'>
    """

    def __init__(self, facts: Facts, graph: Graph, name: str | None = None) -> None:
        super().__init__(
            name or facts.name, facts.scenario, facts.shapes, facts.any_machines, "policy", facts.forecaster
        )
        graph.check_fits(facts.shapes)
        self.facts, self._graph = facts, graph

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> ExportedPolicy:
        """The policy in a file's content.

        Parameters
        ----------
        content : bytes
            Of a file.
        where : str
            How errors begin, such as the file's name.

        Raises
        ------
        InputError
            As `load_exported` does.
        """
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

    def remember_machines(self) -> None:
        """From now on, compute anew only what depends on machines that changed since the last decision.

        Worth it in a large cluster that one caller asks about again and again. Decisions are the same.

        Examples
        --------
        >>> policy.remember_machines()  # doctest: +SKIP
        """
        if self.facts.any_machines:
            self._graph.remember_machines(self.facts)

    def logits(self, seen: Seen, mask: Mask) -> Logits:
        return self._graph.logits(seen, mask)


def load_exported(path: str | Path) -> ExportedPolicy:
    """Load a policy that `tvwrl export` wrote. No code of the file runs.

    Parameters
    ----------
    path : str or Path
        The file, or shipped:NAME.

    Returns
    -------
    ExportedPolicy
        A scheduler with the name of the training run.

    Raises
    ------
    InputError
        If onnxruntime is missing, and for a file that is missing, larger than any policy, truncated, damaged, not
        written by `tvwrl export`, of another format, or that needs other files or operators.

    Examples
    --------
    >>> load_exported("policy.onnx").knowledge.group  # doctest: +SKIP
    'demand forecasts'
    """
    from tvwrl.agents.shipped import located

    path = located(path)
    content, texts = read_onnx(path)
    return ExportedPolicy(Facts.from_texts(texts, str(path)), Graph(content, str(path)))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def open_policy(path: str | Path) -> tuple[ObservingScheduler, Facts]:
    """The policy of a training run (its folder or a .pt file), of an exported .onnx file, or shipped:NAME, and what is
    known of it.

    An exported file needs no PyTorch. Raises InputError for what is missing, damaged or foreign, and for policies of
    DeepRM, which choose workloads and not machines.
    """
    from tvwrl.agents.shipped import located

    path = located(path)
    if path.suffix == ".onnx":
        exported = load_exported(path)
        return exported, exported.facts
    from tvwrl.agents.policy_scheduler import PolicyScheduler, load_policy

    policy = load_policy(path)
    if not isinstance(policy, PolicyScheduler):
        raise InputError(f"{path} holds a policy of DeepRM, which chooses workloads and not machines: give another run")
    return policy, Facts.of(policy.checkpoint, policy.name)


def in_a_cluster(facts: Facts, resources: tuple[str, ...]) -> tuple[Scenario, Float]:
    """What a policy is shown of a real cluster, and the units (D,) that the largest machine has of each resource.

    Demand is not rounded to whole units, as pods may need a hundredth of one. Raises InputError for a policy of other
    resources or classes than its own, and one that sees lifetime peaks, which no cluster knows.
    """
    known, classes = facts.shapes["classes"], facts.classes.k
    if facts.resources != resources:
        raise InputError(
            f"policy '{facts.name}' was trained on the resources {', '.join(facts.resources)}: a cluster has "
            f"{' and '.join(resources)}"
        )
    if classes != known:
        raise InputError(f"policy '{facts.name}' knows {known} classes, but it came with {classes}")
    if facts.scenario.observe_peak:
        raise InputError(f"policy '{facts.name}' sees lifetime peaks, which no real cluster knows")
    capacity = facts.scenario.cluster(resources).capacity.max(axis=0)
    live: dict[str, Any] = {"quantise": False, "placements_per_slot": None, "usage_delay": 0, "max_slots": 0}
    return replace(facts.scenario, background=0, perturb=0, **live), capacity
