"""Sphinx extension: a page of the API for every module that names what it exports, and a warning for every public name
whose docstring lacks a part (`python docs/public_names.py ROOM` lists them for a room)."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
WITHIN_ROOMS = ("tvwrl.envs.observations", "tvwrl.envs.rewards")
FOLDER = Path(__file__).parent / "reference" / "api"


def public_modules() -> list[ModuleType]:
    """tvwrl, those of its rooms that have an `__all__`, and the modules of a room that users import by name."""
    package = importlib.import_module("tvwrl")
    rooms = [importlib.import_module(f"tvwrl.{room.name}") for room in pkgutil.iter_modules(package.__path__)]
    found = [module for module in [package, *rooms] if hasattr(module, "__all__")]
    return found + [importlib.import_module(name) for name in WITHIN_ROOMS]


def write_pages(app: Sphinx) -> None:
    """One page per module; only what has changed is written, so that a second build is fast."""
    FOLDER.mkdir(exist_ok=True)
    pages = {f"{module.__name__}.md": page(module) for module in public_modules()}
    for name, text in pages.items():
        file = FOLDER / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
    for file in FOLDER.glob("*.md"):
        if file.name not in pages:
            file.unlink()


def page(module: ModuleType) -> str:
    """Everything in `__all__`, with its docstring; what is public in tvwrl too is described there alone."""
    title = f"# {module.__name__}\n\n"
    listed = f"```{{eval-rst}}\n.. automodule:: {module.__name__}\n"
    twice = sorted(set(module.__all__) & set(importlib.import_module("tvwrl").__all__))
    if module.__name__ == "tvwrl" or not twice:
        return f"{title}{listed}```\n"
    names = ", ".join(f"`{name}`" for name in twice)
    listed += f"   :exclude-members: {', '.join(twice)}\n"
    return f"{title}{listed}```\n\nAlso here, and described with [tvwrl](tvwrl.md): {names}.\n"


# What numpydoc must find in the docstring of a public function or class, and in that of a method or property:
# GL08 text, PR01 every parameter, PR02 no other, PR03 in their order, PR07 with what each means; RT01 and RT03, YD01
# what comes out; EX01 an example
WHOLE = {"GL08", "PR01", "PR02", "PR03", "PR07", "RT01", "RT03", "YD01", "EX01"}
PART = {"GL08", "PR01", "PR02", "PR03", "PR07"}
WITHOUT_EXAMPLES = {
    "tvwrl",
    "tvwrl.benchmark",
    "tvwrl.cli",
    "tvwrl.experiments",
    *WITHIN_ROOMS,
}  # some cannot be shown in a line or two


def faults(module: ModuleType) -> Iterator[str]:
    """What docstrings of its public names lack, by numpydoc's rules; what a base class says of a method that a class
    overrides, or of a field that it inherits, needs no second saying."""
    where = module.__name__
    for name in module.__all__:
        thing = getattr(module, name)
        if not (inspect.isclass(thing) or inspect.isroutine(thing)):
            continue
        bases = [base for base in thing.__mro__[1:] if base.__doc__] if inspect.isclass(thing) else []
        parts = [(name, WHOLE - {"EX01"} if where in WITHOUT_EXAMPLES else WHOLE)]
        for part, member in vars(thing).items() if inspect.isclass(thing) else ():
            if not part.startswith("_") and (inspect.isroutine(member) or isinstance(member, property)):
                overrides = any(part in vars(base) for base in bases)
                parts.append((f"{name}.{part}", set() if overrides else PART))
        told = {one.name for base in bases for one in NumpyDocString(inspect.cleandoc(base.__doc__))["Parameters"]}
        for called, needed in parts:
            for code, message in validate(f"{where}.{called}")["errors"]:
                inherited = code == "PR01" and set(re.findall(r"'(\w+)'", message)) <= told
                if code in needed and not inherited:
                    yield f"{where}.{called}: {code} {message}"


def warn_of_undocumented(app: Sphinx) -> None:
    """A public name whose docstring lacks something."""
    for module in public_modules():
        for fault in faults(module):
            logger.warning(fault)


def begins_list(line: str) -> bool:
    return line.startswith("- ")


def ends_meanings(before: str, line: str) -> bool:
    return before.startswith(":") and line != "" and not line.startswith(" ")


def from_markdown(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are Markdown, as Gymnasium has them, but autodoc reads reStructuredText: change, in place, the
    four things that differ there: headings, tables, what arguments mean (`name`: meaning), and lists that no empty line
    precedes."""
    found: list[str] = []
    for line in lines:
        before = found[-1] if found else ""
        if heading := re.match(r"#+ (.*)", line):
            found += [f".. rubric:: {heading[1]}", ""]
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
            if not before.startswith(("   ", ".. list-table")):
                found += ["", ".. list-table::", "   :header-rows: 1", ""]
            if not set(line) <= set("|-: "):
                found += [f"   {'* -' if i == 0 else '  -'} {cell}" for i, cell in enumerate(cells)]
        elif meaning := re.match(r"((?:`\w+`(?:, )?)+): (.*)", line):
            found += [
                *([""] if before and not before.startswith((":", "    ")) else []),
                f":{meaning[1]}: {meaning[2]}",
            ]
        elif (begins_list(line) and before and not before.startswith(("- ", "  "))) or ends_meanings(before, line):
            found += ["", line]
        else:
            found.append(line)
    lines[:] = found


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    app.connect("builder-inited", warn_of_undocumented)
    app.connect("autodoc-process-docstring", from_markdown)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    for module in public_modules():
        if sys.argv[1:] in ([], [module.__name__.removeprefix("tvwrl.")]):
            print(*faults(module), sep="\n")
