"""Objects of Kubernetes as its API has them, from a file that `kubectl get -o json` wrote or from the API itself.

Nothing here knows what the objects mean; `kubernetes_state` does. `Field` is how they are looked at: it knows where in
which object a value stands, so that whatever is wrong is refused with its name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from tvwrl.types import InputError

NAMESPACED = {  # kind -> whether its objects are in a namespace; others are passed over, secrets among them
    "Node": False,
    "Pod": True,
    "ReplicaSet": True,
    "PodDisruptionBudget": True,
    "PriorityClass": False,
    "PersistentVolumeClaim": True,
    "PersistentVolume": False,
    "Namespace": False,
}
COMMAND = (
    "kubectl get nodes,pods,replicasets,poddisruptionbudgets,priorityclasses,persistentvolumeclaims,"
    "persistentvolumes,namespaces -A -o json > objects.json"
)
MOST_BYTES = 2**30  # of a file: 10,000 pods have about 100 MB
MOST_OBJECTS = 1_000_000  # of one kind
MOST_LISTED = 10_000  # in a list within an object
MOST_TEXT = 2000  # characters of a text that is looked at
MOST_NAME = 253  # characters of a name in Kubernetes
MOST_WHOLE = 2**53  # of a whole number


class Field:
    """A value in an object of Kubernetes, and where it stands. What is absent is a field too, with the value None.

    Examples
    --------
    >>> pod = Field({"spec": {"nodeName": "a", "containers": [{"name": "web"}]}}, "Pod shop/cart")
    >>> pod.at("spec", "nodeName").text()
    'a'
    >>> [container.at("name").text() for container in pod.at("spec", "containers")]
    ['web']
    >>> pod.at("spec", "containers", "name")
    Traceback (most recent call last):
    tvwrl.types.InputError: Pod shop/cart: spec.containers: must be an object
    """

    __slots__ = ("_parent", "_path", "value")

    def __init__(self, value: Any, name: str, parent: Field | None = None) -> None:
        self.value = value
        self._path: tuple[str, ...] = (name,)  # from the parent, so that names are put together only where needed
        self._parent = parent

    def __str__(self) -> str:
        """Where it stands: `Pod shop/cart: spec.containers[0].name`."""
        names: list[str] = []
        here: Field | None = self
        while here is not None:
            names += reversed(here._path)
            here = here._parent
        names.reverse()
        return f"{names[0]}: {'.'.join(names[1:]).replace('.[', '[')}" if len(names) > 1 else names[0]

    def refuse(self, limit: str) -> NoReturn:
        """Raise InputError: the value is not within the limit."""
        shown = "missing" if self.value is None else repr(self.value)
        given = f" is {shown}" if len(shown) < 80 and not isinstance(self.value, dict | list) else ""
        raise InputError(f"{self}{given}: must be {limit}")

    def at(self, *path: str) -> Field:
        """The field at the end of a path of names."""
        value = self.value
        for depth, name in enumerate(path):
            if value is None:
                break
            if not isinstance(value, dict):
                self.at(*path[:depth]).refuse("an object")
            value = value.get(name)
        found = Field(value, "", self)
        found._path = path
        return found

    def __iter__(self) -> Iterator[Field]:
        """The fields of a list; of what is absent, none."""
        if self.value is None:
            return
        if not isinstance(self.value, list) or len(self.value) > MOST_LISTED:
            self.refuse(f"a list of at most {MOST_LISTED}")
        for number, one in enumerate(self.value):
            yield Field(one, f"[{number}]", self)

    @property
    def given(self) -> bool:
        """Whether there is a value."""
        return self.value is not None

    def fields(self) -> list[str]:
        """Names of the fields of an object; of what is absent, none."""
        if self.value is None:
            return []
        if not isinstance(self.value, dict):
            self.refuse("an object")
        return list(self.value)

    def text(self) -> str:
        """A text, "" where there is none."""
        if self.value is None:
            return ""
        if not isinstance(self.value, str) or len(self.value) > MOST_TEXT or not self.value.isprintable():
            self.refuse(f"a printable text of at most {MOST_TEXT} characters")
        return self.value

    def name(self) -> str:
        """A name that must be there."""
        if not self.value or len(self.text()) > MOST_NAME:
            self.refuse(f"a name of 1 to {MOST_NAME} characters")
        return self.text()

    def flag(self) -> bool:
        """True or False, False where there is none."""
        if self.value is not None and not isinstance(self.value, bool):
            self.refuse("true or false")
        return bool(self.value)

    def whole(self, absent: int = 0) -> int:
        """A whole number, `absent` where there is none."""
        if self.value is None:
            return absent
        if not isinstance(self.value, int) or isinstance(self.value, bool) or abs(self.value) > MOST_WHOLE:
            self.refuse("a whole number")
        return int(self.value)

    def texts(self) -> dict[str, str]:
        """Texts by name, such as labels; empty where there are none."""
        return {name: self.at(name).text() for name in self.fields()}

    def moment(self) -> float:
        """Seconds since 1970, NaN where no time is given."""
        if self.value is None:
            return math.nan
        try:
            moment = datetime.fromisoformat(self.text())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            self.refuse("a time such as 2030-01-31T12:00:00Z")


@dataclass(frozen=True)
class Objects:
    """Objects of a cluster at one moment.

    Parameters
    ----------
    by_kind : dict of str to sequence of dict
        Kind, such as Pod -> its objects. Of a kind that is absent it is not known whether there are objects; one that
        was read and has none is there with an empty list.
    source : str
        Where they were read, for messages.
    time : float
        Seconds since 1970 at which they were read.
    unreadable : dict of str to str
        Kind -> why its objects could not be read, such as "HTTP 403 Forbidden".

    Examples
    --------
    >>> Objects({"Node": [], "Pod": []}, "https://api:6443", 0.0, {"PodDisruptionBudget": "HTTP 403 Forbidden"}).time
    0.0
    """

    by_kind: Mapping[str, Sequence[dict[str, Any]]]
    source: str
    time: float
    unreadable: Mapping[str, str] = field(default_factory=dict)

    def named(self, kind: str) -> dict[str, Field]:
        """Give the objects of a kind by their names.

        Parameters
        ----------
        kind : str
            Such as Pod.

        Returns
        -------
        dict of str to Field
            By "namespace/name", or by name where the kind has no namespaces; in the order of names, so that nothing
            depends on the order in which they were listed.

        Raises
        ------
        InputError
            For an object without a name, and for two of the same.
        """
        found: dict[str, Field] = {}
        listed = self.by_kind.get(kind, ())
        if len(listed) > MOST_OBJECTS:
            raise InputError(f"{self.source}: {len(listed)} objects of kind {kind}: must be at most {MOST_OBJECTS}")
        for number, one in enumerate(listed):
            name = _name(Field(one, f"{self.source}: {kind} {number}"), kind)
            if name in found:
                raise InputError(f"{self.source}: {kind} {name} is there twice: must be there once")
            found[name] = Field(one, f"{self.source}: {kind} {name}")
        return dict(sorted(found.items()))


def read_objects(path: Path) -> Objects:
    """Read what `kubectl get ... -o json` wrote.

    Parameters
    ----------
    path : Path
        A file of one or several lists or objects, or a folder of such files.

    Returns
    -------
    Objects
        Its time is that of the newest sign of life of a node, or of the newest file if that is older, or if there is
        none.

    Raises
    ------
    InputError
        For what cannot be read, or is not what kubectl writes, with file, item, field and limit.

    Examples
    --------
    >>> read_objects(Path("objects.json")).by_kind["Pod"]  # doctest: +SKIP
    """
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        if not files:
            raise InputError(f"{path}: no file in this folder ends in .json; write one with: {COMMAND}")
    else:
        files = [path]
    by_kind: dict[str, list[dict[str, Any]]] = {}
    newest = -math.inf
    for file in files:
        try:
            about = file.stat()
            if about.st_size > MOST_BYTES:
                raise InputError(f"{file}: {about.st_size} bytes: must be at most {MOST_BYTES}")
            data = file.read_bytes()
        except OSError as error:
            raise InputError(f"{file}: cannot be read: {error.strerror or error}") from None
        newest = max(newest, about.st_mtime)
        for document in _documents(data, str(file)):
            for kind, one in _objects(Field(document, str(file)), ""):
                by_kind.setdefault(kind, []).append(one)
    if "Node" not in by_kind or "Pod" not in by_kind:
        missing = "pods" if "Node" in by_kind else "nodes"
        raise InputError(f"{path}: there are no {missing} in it; write it with: {COMMAND}")
    objects = Objects(by_kind, str(path), newest)
    for kind in by_kind:
        objects.named(kind)  # refuses two of the same name
    return Objects(by_kind, str(path), min(newest, _sign_of_life(objects, newest)))


def _documents(data: bytes, file: str) -> Iterator[Any]:
    """The values of a text of JSON, one after another."""

    def refuse(constant: str) -> NoReturn:
        raise InputError(f"{file}: {constant} is no value of JSON")

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: byte {error.start}: is not UTF-8") from None
    decoder, place, end = json.JSONDecoder(parse_constant=refuse), 0, len(text)
    while (place := _next(text, place)) < end:
        try:
            value, place = decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            raise InputError(f"{file}: line {error.lineno}: is not JSON: {error.msg}") from None
        except InputError:
            raise
        except (RecursionError, ValueError):
            line = text.count("\n", 0, place) + 1
            raise InputError(f"{file}: the value in line {line} is nested too deeply, or has too many digits") from None
        yield value


def _next(text: str, place: int) -> int:
    """Where the next value begins."""
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    return place


def _objects(document: Field, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(kind, object) of an object or of all in a list of them; `kind`: what an object is that does not say it."""
    kind = document.at("kind").text() or kind
    if not kind:
        document.at("kind").refuse(f"the kind of an object, as what this writes: {COMMAND}")
    if kind.endswith("List"):
        items = document.at("items")
        if items.given and (not isinstance(items.value, list) or len(items.value) > MOST_OBJECTS):
            items.refuse(f"a list of at most {MOST_OBJECTS}")
        for number, one in enumerate(items.value or []):
            yield from _objects(Field(one, f"items[{number}]", document), kind.removesuffix("List"))
    elif kind in NAMESPACED:
        _name(document, kind)
        yield kind, document.value


def _name(one: Field, kind: str) -> str:
    metadata = one.at("metadata")
    name = metadata.at("name").name()
    return f"{metadata.at('namespace').name()}/{name}" if NAMESPACED[kind] else name


def _sign_of_life(objects: Objects, absent: float) -> float:
    """The newest moment at which a node was heard of."""
    moments = [
        condition.at("lastHeartbeatTime").moment()
        for node in objects.named("Node").values()
        for condition in node.at("status", "conditions")
    ]
    return max((moment for moment in moments if not math.isnan(moment)), default=absent)
