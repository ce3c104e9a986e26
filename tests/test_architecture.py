"""Rooms import downwards, heavy libraries are imported late, dependencies are declared and work."""

from __future__ import annotations

import ast
import graphlib
import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import tvwrl
from tvwrl.cli.table import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tvwrl"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

GROUND = (
    "registration", "types", "checks", "names", "progress", "compiling", "compiled", "machine_code", "deferring",
    "input_tables", "option_files", "runs", "parallel", "disk_cache",
)  # fmt: skip


def may_import() -> dict[str, set[str]]:
    """Room -> the rooms that it may import, from the table of docs/explanation/architecture.md, from the ground up."""
    table: dict[str, set[str]] = {}
    for line in (ROOT / "docs/explanation/architecture.md").read_text().partition("| room |")[2].splitlines()[2:]:
        if not line.startswith("|"):
            return table
        rooms, others = (set(re.findall(r"`(\w+)`", cell)) for cell in line.split("|")[1:3])
        others |= set(GROUND) if re.search(r"\bground\b", line.split("|")[2]) else set()
        assert others <= table.keys(), f"{rooms} may import only rooms that stand above in the table"
        table |= dict.fromkeys(rooms, others | rooms)
    raise AssertionError("no table of rooms")


ROOMS = may_import()
HEAVY = ("numpy", "gymnasium", "numba", "torch", "polars", "sklearn", "matplotlib", "scipy", "pandas")

LIBRARY_EXTRAS = (
    "train",
    "sb3",
    "tune",
    "ray",
    "tsfresh",
    "tslearn",
    "kmedoids",
    "flow",
    "onnx",
    "export",
    "serve",
    "kubernetes",
    "offline",
    "sklx",
)  # all but those of development

MODULE_OF = {  # where it is not the distribution's name with "_" for "-"
    "scikit-learn": "sklearn",
    "scikit-learn-extra": "sklearn_extra",
    "pillow": "PIL",
    "pyyaml": "yaml",
    "pytest-xdist": "xdist",
    "codespell": "codespell_lib",
}


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Full names that a module imports, inside functions too; `from a import b` gives `a.b`."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(ROOT)}:{node.lineno}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(path: Path) -> str:
    """First part of a module's path below the package."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def rooms_imported(path: Path) -> set[str]:
    """Rooms of the package that a module imports; names of `tvwrl` itself (`__version__`) are in no room."""
    names = {name.split(".")[1] for name in imports(path) if name.startswith("tvwrl.")}
    return {name for name in names if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists()}


def declared(*groups: str) -> list[str]:
    """Distributions that the core (group "") and extras name, extras within extras resolved."""
    names: list[str] = []
    for group in groups:
        for requirement in PROJECT["optional-dependencies"][group] if group else PROJECT["dependencies"]:
            name, extras = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", requirement).groups()
            names += declared(*extras.split(",")) if name == PROJECT["name"] else [name]
    return list(dict.fromkeys(names))


def module_of(distribution: str) -> str:
    """The module to import for a distribution."""
    return MODULE_OF.get(distribution, distribution.replace("-", "_"))


MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def test_a_room_imports_what_the_table_allows():
    rooms = {room_of(path) for path in MODULES}
    assert rooms == set(ROOMS), "a room needs its row in docs/explanation/architecture.md"
    found = {(room_of(path), room) for path in MODULES for room in rooms_imported(path)}
    assert {(room, other) for room, other in found if other not in ROOMS[room]} == set()
    unused = {(room, other) for room in ROOMS for other in ROOMS[room] - set(GROUND) - {room}} - found
    assert {pair for pair in unused if room_row(pair[0]) != room_row(pair[1])} == set(), "the table allows too much"


def test_the_table_of_rooms_names_modules_that_exist():
    for line in (ROOT / "docs/explanation/architecture.md").read_text().partition("| room |")[2].splitlines()[2:]:
        if not line.startswith("|"):
            return
        _, rooms, _, text = line.split("|", 3)
        for room in set(re.findall(r"`(\w+)`", rooms)) & FOLDERS:
            modules = {path.stem for path in (PACKAGE / room).rglob("*")}
            offered = set(dir(importlib.import_module(f"tvwrl.{room}")))
            named = {word.strip("/").split("/")[-1] for word in re.findall(r"`([\w/]+)`", text)} - {"tvwrl"}
            assert named - modules - offered - set(ROOMS) == set(), room


def room_row(room: str) -> frozenset[str]:
    """The rooms that share its row."""
    return frozenset(other for other in ROOMS if room in ROOMS[other] and other in ROOMS[room])


@pytest.mark.parametrize("room", ["packing", "penalties", "simulation", "metrics", "schedulers", "envs", "agents"])
def test_the_core_knows_no_command_line_no_plots_and_no_browser(room):
    assert not ROOMS[room] & {"command_line", "plotting", "explorer", "experiments", "cli"}
    heard = {name.split(".")[0] for path in MODULES if room_of(path) == room for name in imports(path)}
    assert not heard & {"tyro", "matplotlib", "argparse"}


FOLDERS = {path.name for path in PACKAGE.iterdir() if (path / "__init__.pyi").exists()}  # rooms with a door


def names_of_others(path: Path) -> Iterator[tuple[str, str]]:
    """Module and name of what a module imports from other rooms that are folders, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tvwrl."):
            room = node.module.split(".")[1]
            if room in FOLDERS and room != room_of(path):
                yield from ((node.module, alias.name) for alias in node.names)


def test_a_room_is_entered_by_its_door():
    inside = {(path.name, module) for path in MODULES for module, _ in names_of_others(path) if module.count(".") > 1}
    assert inside == set(), "import the name from its room, and list it in the room's __init__.pyi"


def test_modules_of_a_room_import_each_other_in_no_circle():
    """At import; functions may import later. Between rooms there is none, as they have an order."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    after = {
        name: {
            target
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ImportFrom)
            for target in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
            if target in modules and room_of(modules[target]) == room_of(path)
        }
        for name, path in modules.items()
    }
    list(graphlib.TopologicalSorter(after).static_order())  # raises CycleError, which names the circle


def test_a_door_has_nothing_that_no_other_room_asks_for():
    asked = {pair for path in MODULES for pair in names_of_others(path)}
    for room in sorted(FOLDERS):
        tree = ast.parse((PACKAGE / room / "__init__.pyi").read_text())
        offered = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
        public = set(importlib.import_module(f"tvwrl.{room}").__all__)
        assert offered - public - {name for module, name in asked if module == f"tvwrl.{room}"} == set(), room


def test_referee_shares_no_code_with_the_simulation():
    assert rooms_imported(PACKAGE / "metrics.py") <= {"types", "penalties"}
    assert {name for name in imports(PACKAGE / "metrics.py") if "penalties" in name} <= {
        "tvwrl.penalties.PenaltyWeights"
    }


def test_the_tolerance_is_applied_in_packing_alone():
    names = {"tvwrl.packing.fit.TOLERANCE", "tvwrl.packing.fit.SINGLE_TOLERANCE"}
    assert not [path for path in MODULES if room_of(path) != "packing" and names & set(imports(path))]


PAPERS = sorted(path for path in (PACKAGE / "papers").iterdir() if (path / "__init__.py").exists())


@pytest.mark.parametrize("paper", PAPERS, ids=lambda path: path.name)
def test_papers_are_leaves_with_the_same_files(paper):
    assert {"published.py", "cells.py", "figures.py"} <= {path.name for path in paper.iterdir()}
    others = {f"tvwrl.papers.{other.name}" for other in PAPERS if other != paper}
    for path in paper.rglob("*.py"):
        assert not {".".join(name.split(".")[:3]) for name in imports(path)} & others, path


def test_only_the_reproduce_command_imports_papers():
    outside = [path for path in (*MODULES, *ROOT.glob("scripts/*.py")) if PACKAGE / "papers" not in path.parents]
    found = [path.name for path in outside if any(name.startswith("tvwrl.papers") for name in imports(path))]
    assert set(found) <= {"reproduce.py"}


# Numbers this small beside one of these quantities are a tolerance, which only the rule for fits and referees may have.
TINY = 1e-5
QUANTITY = re.compile(r"capacit|residual|cores|free|room|load|used|memory")
OWN_TOLERANCE = (
    "packing/fit.py",
    "metrics.py",
    "planning/referee.py",
    "planning/flow/referee.py",
    "what_if/referee.py",
    "rebalance/referee.py",
    "rebalance/worth.py",
)
NOT_ABOUT_FITS = {  # what is compared there is no capacity, or none is exceeded
    (
        "planning/flow/firmament.py",
        "LEAST * problem.fleet.capacity[:, at].max()",
    ),  # least demand
    ("papers/pism/law_fitting.py", "residual < best[0] - 1e-12"),  # of a regression
    ("planning/milp.py", "LIGHT * self._capacity.max(axis=0)"),  # what a solver's tolerance could hide
    ("planning/milp.py", "self._instance.peak < LIGHT * self._capacity.max(axis=0)"),
    ("schedulers/best_fit.py", "-(cluster.load / cluster.divisor).max(axis=1) - 1e-06 * cluster.active"),  # breaks ties
    ("traces/sequences.py", "self.machines.capacity >= self.scenario.peak_units"),  # the grid's columns
}


def is_tiny(node: ast.expr) -> bool:
    """Whether an expression is a positive number that can only be a tolerance."""
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < node.value <= TINY


def named(node: ast.AST) -> str:
    """The last name of `a.b[i]`: b; empty for other expressions."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def own_rules_for_fits(path: Path) -> Iterator[str]:
    """Expressions with a tolerance beside a capacity, and comparisons with a bare capacity or residual."""
    tree = ast.parse(path.read_text())
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and is_tiny(node.value)]
    tolerances = {named(target) for node in assigned for target in node.targets}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Compare, ast.BinOp)):
            parts = list(ast.walk(node))
            names = {named(part) for part in parts} - {""}
            tolerant = any(is_tiny(part) for part in parts) or not names.isdisjoint(tolerances)
            if tolerant and any(QUANTITY.search(name) for name in names):
                yield ast.unparse(node)
        if isinstance(node, ast.Compare) and not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            sides = [node.left, *node.comparators]
            bare = any(named(side).lstrip("_") in ("capacity", "residual", "cores") for side in sides)
            if bare and not any(isinstance(side, ast.Constant) for side in sides):
                yield ast.unparse(node)


def test_nobody_has_a_rule_for_fits_of_his_own():
    found = {
        (path.relative_to(PACKAGE).as_posix(), expression)
        for path in MODULES
        if path.relative_to(PACKAGE).as_posix() not in OWN_TOLERANCE
        for expression in own_rules_for_fits(path)
    }
    assert found - NOT_ABOUT_FITS == set()


def test_a_rule_of_ones_own_is_found(tmp_path):
    (tmp_path / "own.py").write_text(
        "SLACK = 1e-9\nfits = load[m] + need <= self.capacity[m]\nroom = need > free + SLACK\nok = capacity[m] > 0\n"
    )
    assert set(own_rules_for_fits(tmp_path / "own.py")) == {
        "load[m] + need <= self.capacity[m]",
        "need > free + SLACK",
        "free + SLACK",
    }


def test_the_package_itself_imports_next_to_nothing():
    assert rooms_imported(PACKAGE / "__init__.py") == {"registration"}


def test_importing_the_package_imports_nothing_heavy():
    code = f"import sys, tvwrl; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_the_version_is_the_same_everywhere():
    assert tvwrl.__version__ == PROJECT["version"]
    assert f"\nversion: {tvwrl.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_every_library_that_the_package_imports_is_declared():
    known = {module_of(name) for name in declared("", *LIBRARY_EXTRAS)} | set(sys.stdlib_module_names)
    used = {name.split(".")[0] for path in MODULES for name in imports(path)} - {"tvwrl"}
    assert used <= known


@pytest.mark.parametrize("distribution", declared("", "dev"))
def test_every_dependency_can_be_imported(distribution):
    importlib.import_module(module_of(distribution))


def test_every_dependency_is_pinned_to_a_public_version():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.!]+( ; python_version [<>=]+ \"3\.\d+\")?", line) for line in lines)
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines}
    assert set(declared("", "dev")) <= pinned


@pytest.mark.parametrize("path", sorted(ROOT.glob("scripts/*.py")), ids=lambda path: path.stem)
def test_a_script_only_calls_the_command(path):
    tree = ast.parse(path.read_text())
    assert set(imports(path)) == {"tvwrl.cli.main"}
    assert [ast.unparse(node) for node in tree.body[2:]] == [
        f"if __name__ == '__main__':\n    main('{command_of(path)}')",
    ]


def command_of(script: Path) -> str:
    """The subcommand that a script stands for."""
    found = re.search(r"`tvwrl ([\w-]+)`", script.read_text())
    assert found is not None
    assert found[1] in COMMANDS
    return found[1]


def test_no_file_names_a_place_on_one_machine():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-coz", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    needles = [f"/{name}/".encode() for name in ("work", "root", "home")]
    files = [ROOT / name for name in listing.stdout.split("\0") if name]
    assert [
        path.relative_to(ROOT).as_posix()
        for path in files
        if path.is_file() and any(needle in path.read_bytes() for needle in needles)
    ] == []
