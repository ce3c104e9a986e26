"""One HTML file that holds a page and its data, and needs no server and no network.

The page is put together from the small files of `page/`. Data go in as base64 only, so nothing of them is ever markup
or script; the page's scripts run because the content security policy names their hashes, and no others do.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.runs import whole_file

TYPES = ("u1", "u2", "i2", "i4", "f4", "f8")  # of arrays; others become the first of these that holds all values
SCALES, EXACT = (1, 10, 100), 1e-12  # of whole numbers, and the share of a number that may be lost


def packed(tree: Any) -> str:
    """The tree as base64 of a gzip file: the length of the JSON text (4 bytes, little-endian), the text, the arrays.

    In the JSON an array is {"$": offset, "type": one of `TYPES`, "shape": [...]}, where its whole numbers stand for
    tenths or hundredths also "scale": 10 or 100; offsets count from the end of the
    text, padded to a multiple of 8, and are multiples of 8 themselves. NaN occurs in arrays only.

    >>> packed({"slot": np.arange(3)})[:4]
    'H4sI'
    """
    arrays: list[bytes] = []
    offset = 0

    def plain(part: Any) -> Any:
        nonlocal offset
        if isinstance(part, dict):
            return {str(name): plain(value) for name, value in part.items()}
        if isinstance(part, list | tuple):
            return [plain(value) for value in part]
        if not isinstance(part, np.ndarray):
            return part.item() if isinstance(part, np.generic) else part
        whole, scale = _whole(part)
        values = np.ascontiguousarray(_small(whole))
        found = {"$": offset, "type": values.dtype.str[1:], "shape": list(values.shape)}
        found |= {"scale": scale} if scale > 1 else {}
        content = values.tobytes()
        arrays.append(content + bytes(-len(content) % 8))
        offset += len(arrays[-1])
        return found

    text = json.dumps(plain(tree), allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-(4 + len(text)) % 8)
    whole = len(text).to_bytes(4, "little") + text + b"".join(arrays)
    return base64.b64encode(gzip.compress(whole, 6, mtime=0)).decode("ascii")


def _whole(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], int]:
    """The same numbers as whole numbers, and what to divide them by; double precision that has more digits stays as it
    is. Costs are often tenths, and take a quarter less space so."""
    if values.dtype != np.float64 or values.size == 0 or not np.isfinite(values).all():
        return values, 1
    for scale in SCALES:
        rounded = np.rint(values * scale)
        if np.abs(rounded).max() < 2**31 and np.allclose(rounded / scale, values, rtol=EXACT, atol=0.0):
            return rounded.astype(np.int64), scale
    return values, 1


def _small(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same numbers in the smallest of `TYPES` for whole numbers; floats keep their width."""
    if values.dtype.kind == "f":
        return values.astype("<f4" if values.dtype.itemsize <= 4 else "<f8")
    for kind in TYPES[:4]:
        limits = np.iinfo(kind)
        if values.size == 0 or (values.min() >= limits.min and values.max() <= limits.max):
            return values.astype(f"<{kind}" if kind != "u1" else kind)
    return values.astype("<f8")


SHARED = (
    "elements",
    "words",
    "unpack",
    "theme",
    "scales",
    "state",
    "search",
    "keys",
)  # scripts of every page, in order
PARTS = {  # by `index["kind"]`: the scripts that follow; KIND.html is the body and KIND.css the style
    "episodes": (
        *("model", "tip", "heatmap", "clock", "machine", "workload"),
        *("decision", "decisions", "compare", "bar", "episodes"),
    ),
    "plans": (
        "wording",
        "plan_model",
        "plan_words",
        "plan_bar",
        "fleet",
        "contents",
        "application",
        "plan_lists",
        "plans",
    ),
}


def write_explorer(file: Path, index: Mapping[str, Any], sequences: Iterable[Mapping[str, Any]]) -> None:
    """Writes the page of `index["kind"]` with its data; the file is there as a whole or not at all.

    Only one sequence is in memory at a time.
    """
    with whole_file(file) as partial, partial.open("w", encoding="utf-8", newline="\n") as out:
        head, tail = _page(str(index["kind"]), str(index["title"])).split("<!--data-->")
        out.write(head)
        data = chain([("index", index)], ((f"sequence-{number}", tree) for number, tree in enumerate(sequences)))
        for name, tree in data:
            out.write(f'<script type="application/octet-stream" id="{name}">{packed(tree)}</script>\n')
        out.write(tail)


def _page(kind: str, title: str) -> str:
    """The page with `<!--data-->` where the data go."""
    plot = f"/*\n{_asset('uPlot.LICENSE')}*/\n{_asset('uPlot.iife.min.js')}"
    parts = "".join(_asset(f"{name}.js") for name in (*SHARED, *PARTS[kind], "boot"))
    scripts = (plot, f'"use strict";\n(() => {{\n{parts}}})();\n')
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    fills = {
        "<!--policy-->": f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:",
        "/*style*/": _asset("uPlot.min.css") + _asset("shared.css") + _asset(f"{kind}.css"),
        "<!--body-->": _asset(f"{kind}.html"),
        "<!--scripts-->": "\n".join(f"<script>{script}</script>" for script in scripts),
        "<!--title-->": html.escape(title),  # last, as it may hold any of these marks
    }
    page = _asset("template.html")
    for mark, text in fills.items():
        before, after = page.split(mark)
        page = before + text + after
    return page


def _asset(name: str) -> str:
    return files("tvwrl.explorer").joinpath("page", name).read_text(encoding="utf-8")
