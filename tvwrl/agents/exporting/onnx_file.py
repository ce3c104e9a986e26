"""What an ONNX file holds, read without running it or any library, and what is refused in a file from elsewhere.

Only the fields of the format (https://onnx.ai/onnx/repo-docs/IR.html) that are needed are read. A file that passes
computes with standard operators from the numbers inside it: it names no other file, no operators of a library to load,
and holds no loops, branches or functions, which policies do not need.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tvwrl.types import InputError

PREFIX = "tvwrl."  # of the names of our metadata
MOST_BYTES = 256 * 2**20  # a policy has well below 1 MiB
STANDARD = (b"", b"ai.onnx")
AGAIN = "write it again with tvwrl export"
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types of protocol buffers
# Numbers of fields
GRAPH, OPSETS, METADATA, TRAINING, FUNCTIONS = 7, 8, 14, 20, 25  # of a model
NODES, INITIALIZERS, SPARSE = 1, 5, 15  # of a graph
ATTRIBUTES, NODE_DOMAIN, KIND = 5, 7, 4  # of a node
TENSOR, SUBGRAPH, TENSORS, SUBGRAPHS, SPARSE_TENSOR, SPARSE_TENSORS = 5, 6, 10, 11, 22, 23  # of an attribute
EXTERNAL_DATA, DATA_LOCATION = 13, 14  # of a tensor

Field = tuple[int, int | bytes]  # number, value


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
    for number, value in _fields(content):
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
    for number, value in _fields(content):
        if number == INITIALIZERS:
            _check_tensor(_inner(value))
        elif number == SPARSE:
            raise InputError("holds sparse tensors, which a policy does not need")
        elif number == NODES:
            _check_node(_inner(value))


def _check_node(content: bytes) -> None:
    for number, value in _fields(content):
        if number == NODE_DOMAIN:
            _check_domain(_inner(value))
        elif number == ATTRIBUTES:
            for part, inside in _fields(_inner(value)):
                if part in (TENSOR, TENSORS):
                    _check_tensor(_inner(inside))
                elif part in (SUBGRAPH, SUBGRAPHS, SPARSE_TENSOR, SPARSE_TENSORS):
                    raise InputError("holds loops, branches or sparse tensors, which a policy does not need")


def _check_tensor(content: bytes) -> None:
    for number, value in _fields(content):
        if number == EXTERNAL_DATA or (number == DATA_LOCATION and value != 0):
            raise InputError("takes numbers from another file, which is refused")


def _check_domain(domain: bytes) -> None:
    if domain not in STANDARD:
        name = domain[:40].decode(errors="replace")
        raise InputError(f"uses operators of {name!r}, which are not standard and are refused")


def _only(value: int | bytes, wanted: int) -> bytes:
    """The last field of that number in a message of texts; empty if there is none."""
    return next((_inner(inside) for number, inside in reversed(list(_fields(_inner(value)))) if number == wanted), b"")


def _inner(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes belong")
    return value


def _fields(content: bytes) -> Iterator[Field]:
    """The fields of a message in their order. Raises ValueError or IndexError for what is no message."""
    at = 0
    while at < len(content):
        tag, at = _varint(content, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = _varint(content, at)
            yield number, value
            continue
        if kind == BYTES:
            size, at = _varint(content, at)
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(kind, -1)
        if number == 0 or size < 0 or at + size > len(content):
            raise ValueError("no field")
        yield number, content[at : at + size]
        at += size


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a place, and the place after it."""
    value = shift = 0
    while shift < 64:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("no number")
