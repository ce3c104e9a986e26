"""The graph of an exported policy in two: what it computes of each machine by itself, and the rest.

Of a large cluster, few machines change between two decisions. What the first part said of the others is still true, so
only the second part, which looks at all machines and at what waits, has to be computed for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.agents.protocol_buffers import Field, fields_of, message_of

# Numbers of fields of ONNX's protocol buffers
GRAPH = 7  # of a model
NODES, INITIALIZERS, INPUTS, OUTPUTS, VALUES = 1, 5, 11, 12, 13  # of a graph
NODE_INPUT, NODE_OUTPUT, NODE_OPERATOR, INITIALIZER_NAME, VALUE_NAME, VALUE_TYPE = 1, 2, 4, 8, 1, 2
ELEMENTS = {"tensor(float)": 1, "tensor(uint8)": 2, "tensor(int64)": 7, "tensor(bool)": 9, "tensor(double)": 11}
OF_MACHINES = ("grid", "forecast")  # inputs with an axis of machines, the second, and nothing of what waits
OTHERS = ("queue", "backlog", "mask")  # inputs that say how many clusters there are, which is one
FEW, MORE = 2, 5  # machines of two trial clusters
CHANGED = 0.25  # share of the machines from which on all are computed anew

Arrays = dict[str, npt.NDArray[Any]]
Open = Callable[[bytes], Any]  # a model -> a session of onnxruntime


@dataclass(frozen=True)
class _Node:
    content: bytes
    operator: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]


class _Model:
    """A model whose graph has no subgraphs."""

    def __init__(self, content: bytes) -> None:
        self._around = list(fields_of(content))
        graph = next(value for number, value in self._around if number == GRAPH)
        assert isinstance(graph, bytes)
        self._nodes, self._kept = list[_Node](), list[Field]()
        self.inputs, self.outputs, self.known = dict[str, bytes](), dict[str, bytes](), set[str]()
        for number, value in fields_of(graph):
            if not isinstance(value, bytes) or number not in (NODES, INITIALIZERS, INPUTS, OUTPUTS, VALUES):
                self._kept.append((number, value))
                continue
            inside = [(n, one) for n, one in fields_of(value) if isinstance(one, bytes)]
            if number == NODES:
                texts = [(n, one.decode()) for n, one in inside if n in (NODE_INPUT, NODE_OUTPUT, NODE_OPERATOR)]
                takes, gives, (operator,) = (
                    tuple(text for n, text in texts if n == wanted)
                    for wanted in (NODE_INPUT, NODE_OUTPUT, NODE_OPERATOR)
                )
                self._nodes.append(_Node(value, operator, takes, gives))
            elif number == INITIALIZERS:
                self.known |= {one.decode() for n, one in inside if n == INITIALIZER_NAME}
                self._kept.append((number, value))
            elif number in (INPUTS, OUTPUTS):
                name = next(one for n, one in inside if n == VALUE_NAME).decode()
                (self.inputs if number == INPUTS else self.outputs)[name] = value

    def of_machines(self) -> list[str]:
        """Names of all that depends on the inputs `OF_MACHINES` and on no others, but for their sizes."""
        found, depends = list[str](), {name for name in OF_MACHINES if name in self.inputs}
        possible = self.known | depends | {""}
        for node in self._nodes:
            sizes = node.operator == "Shape" and set(node.takes) <= set(OTHERS)
            if sizes or all(name in possible for name in node.takes):
                possible |= set(node.gives)
                if any(name in depends for name in node.takes):
                    depends |= set(node.gives)
                    found += [name for name in node.gives if name]
        return found

    def needed(self, outputs: list[str], given: set[str]) -> tuple[list[_Node], set[str]]:
        """The nodes that compute some outputs where some names are given, and which of these and the inputs they
        read."""
        wanted, nodes, read = set(outputs) - given, list[_Node](), set(outputs) & given
        for node in reversed(self._nodes):
            if wanted & set(node.gives):
                nodes.append(node)
                read |= {name for name in node.takes if name in given or name in self.inputs}
                wanted |= set(node.takes) - given
        return nodes[::-1], read

    def part(self, outputs: list[str], given: dict[str, bytes]) -> bytes:
        """The model that computes some outputs, where some names are given: name -> ValueInfoProto."""
        nodes, read = self.needed(outputs, set(given))
        graph = [*self._kept, *((NODES, node.content) for node in nodes)]
        graph += [(INPUTS, (self.inputs | given)[name]) for name in sorted(read)]
        graph += [(OUTPUTS, self.outputs.get(name, message_of([(VALUE_NAME, name.encode())]))) for name in outputs]
        return message_of([(n, message_of(graph) if n == GRAPH else value) for n, value in self._around])


class SplitGraph:
    """Computes the one output of a model from inputs as the model does, and remembers what it says of each machine."""

    def __init__(self, content: bytes, trial: Callable[[int], Arrays], opened: Open) -> None:
        """`trial`: makes inputs for a number of machines. Raises ValueError if no part of the model can be kept."""
        model = _Model(content)
        (output,) = model.outputs
        axes, kinds = _by_machine(model, trial(FEW), trial(MORE), opened)
        _, read = model.needed([output], set(axes))
        self._axes = {name: axis for name, axis in axes.items() if name in read}
        if not self._axes:
            raise ValueError("no part of it is of machines alone")
        self._each = opened(model.part(list(self._axes), {}))
        self._rest = opened(model.part([output], {name: _value(name, kinds[name]) for name in self._axes}))
        self._each_takes = [one.name for one in self._each.get_inputs()]
        self._rest_takes = [one.name for one in self._rest.get_inputs() if one.name not in self._axes]
        self._output = output
        self._seen: Arrays = {}  # inputs of which `_said` is what the first part says
        self._said: Arrays = {}

    def run(self, inputs: Arrays) -> npt.NDArray[Any]:
        """The output for inputs of one cluster."""
        self._update({name: inputs[name] for name in self._each_takes})
        rest = {name: inputs[name] for name in self._rest_takes}
        found: npt.NDArray[Any] = self._rest.run([self._output], rest | self._said)[0]
        return found

    def _update(self, inputs: Arrays) -> None:
        """Bring what is said of machines up to date."""
        seen = {name: part for name, part in inputs.items() if name in OF_MACHINES}
        count = next(iter(seen.values())).shape[1]
        changed = np.arange(count)
        if self._seen and all(self._seen[name].shape == part.shape for name, part in seen.items()):
            differs = [(self._seen[name] != part).reshape(count, -1).any(axis=1) for name, part in seen.items()]
            changed = np.flatnonzero(np.any(differs, axis=0))
        if len(changed) > CHANGED * count:
            self._said = dict(zip(self._axes, self._each.run(list(self._axes), inputs), strict=True))
            self._seen = {name: part.copy() for name, part in seen.items()}
        elif len(changed):
            said = self._each.run(list(self._axes), _only(inputs, changed))
            for (name, axis), part in zip(self._axes.items(), said, strict=True):
                self._said[name][(slice(None),) * axis + (changed,)] = part
            for name, part in seen.items():
                self._seen[name][:, changed] = part[:, changed]


def _only(inputs: Arrays, machines: npt.NDArray[np.int64]) -> Arrays:
    """The inputs of a cluster of these machines alone."""
    some = {name: np.ascontiguousarray(part[:, machines]) for name, part in inputs.items() if name in OF_MACHINES}
    return inputs | some


def _by_machine(model: _Model, few: Arrays, more: Arrays, opened: Open) -> tuple[dict[str, int], dict[str, str]]:
    """Name -> axis of machines, and name -> type, of all that is computed of each machine by itself: it is the same in
    another cluster with that machine."""
    names = model.of_machines()
    if not names:
        return {}, {}
    session = opened(model.part(names, {}))
    kinds = {one.name: one.type for one in session.get_outputs()}
    takes = [one.name for one in session.get_inputs()]
    few, more = ({name: part[name] for name in takes} for part in (few, more))
    fewer, together = session.run(names, few), session.run(names, more)
    alone = [session.run(names, _only(more, np.array([m]))) for m in range(MORE)]
    axes = {}
    for i, name in enumerate(names):
        shapes = together[i].shape, fewer[i].shape, alone[0][i].shape
        if kinds[name] not in ELEMENTS or len({len(shape) for shape in shapes}) > 1:
            continue
        differ = [axis for axis, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1]
        if [tuple(shape[axis] for shape in shapes) for axis in differ] == [(MORE, FEW, 1)]:
            joined = np.concatenate([one[i] for one in alone], axis=differ[0])
            if np.array_equal(joined, together[i], equal_nan=together[i].dtype.kind == "f"):
                axes[name] = differ[0]
    return axes, kinds


def _value(name: str, kind: str) -> bytes:
    """ValueInfoProto of a tensor of unknown shape."""
    return message_of([(VALUE_NAME, name.encode()), (VALUE_TYPE, message_of([(1, message_of([(1, ELEMENTS[kind])]))]))])
