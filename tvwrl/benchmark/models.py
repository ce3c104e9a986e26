"""What becomes of each kind of entry: a function from (observation, mask) to an action, or a scheduler.

An observation is what `PlacementEnv` returns, a dictionary of arrays without a batch axis; a mask is (actions,) bool,
True where an action is allowed. If a model returns logits, the allowed action with the largest logit is taken.

An entry's process imports this module before all else, so it imports little.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.types import InputError

Mask = npt.NDArray[np.bool_]
Observation = dict[str, npt.NDArray[Any]]
Act = Callable[[Observation, Mask], Any]  # -> a whole number, see `PlacementEnv`
SAME_FIELDS = "give compare(observe=...) the same fields as the training environment"
DEFINED = "entry"  # what a Python file has to define


@dataclass(frozen=True)
class Shown:
    """What a function is shown: the sizes of the arrays that it observes, and its actions."""

    shapes: Mapping[str, tuple[int, ...]]  # of each array of an observation, without a batch axis
    actions: int
    holds: bool  # whether the last action lets the slot pass


def flat(value: Any) -> Any:
    """The value with every array as a tuple of type, shape and bytes, which is pickled ten times faster."""
    if isinstance(value, np.ndarray):
        return value.dtype.char, value.shape, value.tobytes()
    return {key: flat(each) for key, each in value.items()} if isinstance(value, dict) else value


def unflat(value: Any) -> Any:
    """What `flat` was given."""
    if isinstance(value, tuple):
        kind, shape, content = value
        return np.frombuffer(bytearray(content), kind).reshape(shape)
    return {key: unflat(each) for key, each in value.items()} if isinstance(value, dict) else value


Fits = Callable[[Shown], None]  # raises InputError if the function was made for something else


@dataclass(frozen=True)
class Function:
    """An entry that is shown observations."""

    act: Act
    fits: Fits | None = None
    what: str = "function"  # for tables


@dataclass(frozen=True)
class Through:
    """A function or model, or the file of one, that observes what a view makes of the standard observation."""

    view: Any  # `tvwrl.envs.View`
    given: Any

    def of(self, given: Any) -> Function:
        """What plays, for what was given. Raises InputError for a scheduler, which asks for what it wants to know."""
        inner = function_of(given)
        if inner is None:
            raise InputError("observation is for functions and models: a Scheduler asks for what it wants to know")

        def act(observation: Observation, mask: Mask) -> Any:
            return inner.act(self.view(observation), mask)

        def fits(shown: Shown) -> None:
            if inner.fits is not None:
                kinds = {name: np.uint8 if name == "grid" else np.float32 for name in shown.shapes}
                seen = self.view({name: np.zeros(shape, kinds[name]) for name, shape in shown.shapes.items()})
                inner.fits(replace(shown, shapes={name: array.shape for name, array in seen.items()}))

        return Function(act, fits, inner.what)


def function_of(given: Any) -> Function | None:
    """A function or model as a `Function`; None for what is neither, such as a scheduler."""
    if isinstance(given, Function):
        return given
    if isinstance(given, Through):
        return given.of(load(given.given))
    schedulers = sys.modules.get("tvwrl.schedulers.base")  # not imported: no scheduler
    if schedulers is not None and isinstance(given, schedulers.Scheduler):
        return None
    if hasattr(given, "predict") and hasattr(given, "observation_space"):
        return of_stable_baselines(given)
    if "torch" in sys.modules and isinstance(given, sys.modules["torch"].nn.Module):
        return of_torch(given)
    if callable(given) and not isinstance(given, type):
        return Function(given, what=f"function {getattr(given, '__name__', type(given).__name__)}")
    return None


def load(given: Any) -> Any:
    """What plays, for a path of an ONNX or a Python file; anything else as it is."""
    if not isinstance(given, Path):
        return given
    return of_onnx(given) if given.suffix == ".onnx" else load_file(given)


def load_file(path: Path) -> Any:
    """What the Python file at `path` defines as `entry`, an instance if that is a class. Runs the file.

    Raises InputError if it defines none, and whatever the file raises.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for the module of their class there
    sys.path.insert(0, str(path.resolve().parent))  # as for a script: it may import its neighbours
    spec.loader.exec_module(module)
    if not hasattr(module, DEFINED):
        raise InputError(
            f"{path} does not define '{DEFINED}': a function of (observation, mask), a model, or a Scheduler"
        )
    found = getattr(module, DEFINED)
    return found() if isinstance(found, type) else found


def checked_action(action: Any, actions: int) -> int:
    """The action as a whole number from 0 to actions - 1."""
    try:
        number = whole_number(action)
    except (TypeError, ValueError):
        raise InputError(f"the action is {action!r}: must be a whole number from 0 to {actions - 1}") from None
    if not 0 <= number < actions:
        raise InputError(f"the action is {number}: must be 0 to {actions - 1}")
    return number


def checked_workload(choice: Any) -> int:
    """The workload that is to move as an integer. Raises InputError for what is no whole number."""
    try:
        return whole_number(choice)
    except (TypeError, ValueError):
        raise InputError(f"moves workload {choice!r}: must be its number in the arrival sequence") from None


def checked_machine(choice: Any, machines: int) -> int:
    """The chosen machine as an integer. Raises InputError for what is no whole number."""
    try:
        return whole_number(choice)
    except (TypeError, ValueError):
        shown = choice if isinstance(choice, float) else repr(choice)
        limit = f"must be a whole number from 0 to {machines - 1}, or None to wait"
        raise InputError(f"chose machine {shown}: {limit}") from None


def whole_number(value: Any) -> int:
    """A whole number, perhaps in an array of one element. Raises TypeError or ValueError for anything else."""
    plain = value.item() if getattr(value, "size", None) == 1 else value
    if isinstance(plain, bool):  # Python counts it as an integer
        raise TypeError
    return index(plain)


def best_allowed(logits: Any, mask: Mask) -> int:
    """The allowed action with the largest of `logits`, (actions,) or (1, actions); the first if several are equal.

    Raises InputError unless `logits` is a numeric array of that shape, without NaN for an allowed action, and above
    -inf for at least one.
    """
    try:
        values = np.asarray(logits, dtype=np.float64)
    except (TypeError, ValueError):
        what = type(logits).__name__
        raise InputError(f"the model's output is a {what}: must be an array {(1, *mask.shape)} of logits") from None
    if values.shape not in (mask.shape, (1, *mask.shape)):
        raise InputError(f"the model's output has shape {values.shape}: must be {(1, *mask.shape)}, one per action")
    values = values.reshape(mask.shape)
    if np.isnan(values[mask]).any():
        raise InputError(f"the model's output is NaN for action {np.flatnonzero(np.isnan(values) & mask)[0]}")
    if mask.any() and (values[mask] == -np.inf).all():
        raise InputError("the model's output is -inf for every action that is allowed: one must be larger")
    return int(np.where(mask, values, -np.inf).argmax())


def of_stable_baselines(model: Any) -> Function:
    """A Stable-Baselines3 model: its deterministic action, with masks if `predict` takes them."""
    takes_masks = "action_masks" in inspect.signature(model.predict).parameters

    def act(observation: Observation, mask: Mask) -> Any:
        more = {"action_masks": mask} if takes_masks else {}
        return model.predict(observation, deterministic=True, **more)[0]

    def fits(shown: Shown) -> None:
        own = getattr(model.observation_space, "spaces", None)
        if not isinstance(own, Mapping):
            raise InputError(
                f"the model observes {model.observation_space}, not a dictionary of arrays ({', '.join(shown.shapes)}):"
                " give a function from (observation, mask) that converts them to the model's input and calls predict"
            )
        sizes = {key: getattr(space, "shape", "nothing") for key, space in own.items()}
        for key in (*sizes, *(key for key in shown.shapes if key not in sizes)):
            theirs, here = sizes.get(key, "nothing"), shown.shapes.get(key, "nothing")
            if theirs != here:
                raise InputError(
                    f"the model was trained on a different observation: its '{key}' is {theirs}, here it is {here}; "
                    f"{SAME_FIELDS}"
                )
        actions = getattr(model.action_space, "n", None)
        if actions != shown.actions:
            raise InputError(
                f"the model has actions {model.action_space}, here they are Discrete({shown.actions}); "
                + _other_actions(actions, shown)
            )

    return Function(act, fits, f"model {type(model).__name__}")


def _other_actions(own: Any, shown: Shown) -> str:
    """What to do about a model with `own` actions. Holding is one action more than those that place."""
    if own == shown.actions + (-1 if shown.holds else 1):
        return f"give compare(observe={{'hold_action': {not shown.holds}}})"
    return SAME_FIELDS


def of_torch(module: Any) -> Function:
    """A module from a dictionary of float tensors with a batch axis of 1 to logits (1, actions).

    The dictionary holds the observation, and `mask`: 1 where an action is allowed.
    """
    import torch

    module.eval()
    device = next((weights.device for weights in module.parameters()), torch.device("cpu"))

    def act(observation: Observation, mask: Mask) -> int:
        given = {**observation, "mask": mask}
        seen = {key: torch.from_numpy(array[None]).float().to(device) for key, array in given.items()}
        try:
            with torch.no_grad():
                logits = module(seen)
        except KeyError as error:
            raise InputError(f"KeyError: {error}; the module's input has the keys {', '.join(given)}") from error
        if not isinstance(logits, torch.Tensor):
            raise InputError(
                f"the module's output is a {type(logits).__name__}: must be a tensor {(1, *mask.shape)} of logits; "
                "wrap the module in another whose forward returns only the logits"
            )
        return best_allowed(logits.cpu().numpy(), mask)

    return Function(act, what=f"torch module {type(module).__name__}")


def of_onnx(path: Path) -> Function:
    """An ONNX file. Its inputs are named like the observation's arrays, or `mask`, and have a batch axis of 1; arrays
    are cast to their types. Its first output is logits (1, actions).

    Raises InputError if onnxruntime is missing, for a file that is no such model, and for inputs that are no numbers.
    """
    try:
        import onnxruntime
    except ImportError:
        raise InputError(f"{path} needs onnxruntime: pip install onnxruntime") from None
    try:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # as every entry has
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own kinds, which share no base
        raise InputError(f"{path} is not an ONNX model: {error}") from error
    inputs = {one.name: one for one in session.get_inputs()}
    kinds = {name: _dtype(path, name, one.type) for name, one in inputs.items()}

    def act(observation: Observation, mask: Mask) -> int:
        given = {**observation, "mask": mask}
        seen = {key: given[key][None].astype(kind) for key, kind in kinds.items()}
        return best_allowed(session.run(None, seen)[0], mask)

    def fits(shown: Shown) -> None:
        here = {name: (1, *shape) for name, shape in shown.shapes.items()} | {"mask": (1, shown.actions)}
        for name, one in inputs.items():
            if name not in here:
                raise InputError(f"{path}: input '{name}' is not observed; observed are {', '.join(here)}")
            sizes = tuple(one.shape)  # a size that is left open is text or None
            pairs = zip(sizes, here[name], strict=False)
            if len(sizes) != len(here[name]) or any(isinstance(own, int) and own != size for own, size in pairs):
                advice = _other_actions(sizes[-1], shown) if name == "mask" and sizes else SAME_FIELDS
                raise InputError(f"{path}: input '{name}' is {sizes}, here it is {here[name]}; {advice}")

    return Function(act, fits, f"ONNX file {path.name}")


def _dtype(path: Path, name: str, kind: str) -> npt.DTypeLike:
    """The type of arrays for an input of `kind`, as in tensor(float). Raises InputError if that holds no numbers."""
    plain = kind.removeprefix("tensor(").removesuffix(")")
    try:
        return np.dtype({"float": "float32", "double": "float64", "string": ""}.get(plain, plain))
    except TypeError:
        raise InputError(f"{path}: input '{name}' is a {kind}: must be a tensor of numbers, as tensor(float)") from None
