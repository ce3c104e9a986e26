"""One HTML file that holds a page and its data, and needs no server and no network.

The page is put together from the small files of `page/`. Data go in as base64 only, so nothing of them is ever markup
or script; the page's scripts run because the content security policy names their hashes, and no others do.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from tvwrl.explorer.packed import packed
from tvwrl.runs import whole_file

SHARED = ("elements", "words", "unpack", "theme", "scales", "state", "search", "keys")
PARTS = {  # by `index["kind"]`: the scripts in order; KIND.html is the body and KIND.css the style
    "episodes": (
        "model",
        "tip",
        "heatmap",
        "clock",
        "machine",
        "workload",
        "decision",
        "decisions",
        "compare",
        "bar",
        "episodes",
    ),
    "plans": (
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
        out.write(_data("index", index))
        for number, sequence in enumerate(sequences):
            out.write(_data(f"sequence-{number}", sequence))
        out.write(tail)


def _data(name: str, tree: Mapping[str, Any]) -> str:
    return f'<script type="application/octet-stream" id="{name}">{packed(tree)}</script>\n'


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
