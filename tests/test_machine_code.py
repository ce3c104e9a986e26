"""The kernel cache: filled by several processes at once, and stale code in it."""

import subprocess
import sys
from pathlib import Path

import tvwrl.machine_code

FILL = """
import sys
from pathlib import Path
from numba.core.caching import IndexDataCacheFile
import tvwrl.machine_code
for k in range(40):
    IndexDataCacheFile(sys.argv[1], "kernel", "stamp").save((sys.argv[2], k), f"code of {sys.argv[2]}, {k}")
"""


def test_every_process_finds_its_own_code_again(tmp_path):
    fillers = [subprocess.Popen([sys.executable, "-c", FILL, tmp_path, name]) for name in "abc"]
    assert [filler.wait() for filler in fillers] == [0, 0, 0]
    cache = tvwrl.machine_code.IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
    for name in "abc":
        for k in range(40):
            assert cache.load((name, k)) == f"code of {name}, {k}"


def test_code_is_compiled_anew_if_a_constant_or_kernel_that_it_uses_has_changed(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    files = {
        "prices": "from shop.rates import (\n    RATE,\n    other,\n)\nfrom shop.people import Clerk\n"
        "from shop import tax as due\nfrom shop.yard import gate\n",
        "tax": "from shop.compiled import njit\n@njit\ndef due(): ...\n",
        "rates": "from shop.sums import add\nRATE = 2\n",
        "sums": "from shop.compiled import njit\n@njit\ndef add(): ...\n",
        "people": "class Clerk: ...\n",
        "yard/wall": "from shop.compiled import njit\n@njit\ndef gate(): ...\n",
    }
    (package / "yard").mkdir()
    (package / "yard" / "__init__.pyi").write_text("from .wall import gate as gate\n")

    def stamp(**changed: str) -> str:
        for name, text in (files | changed).items():
            (package / f"{name}.py").write_text(text)
        tvwrl.machine_code._content.cache_clear()
        tvwrl.machine_code._imported.cache_clear()
        return tvwrl.machine_code.source_stamp(package / "prices.py", package)

    assert stamp() == stamp()
    assert stamp(people="class Clerk:\n    wage = 3\n") == stamp()  # neither a constant nor compiled
    changes = {"prices": "RATE = 1\n", "rates": "RATE = 3\n", "sums": files["sums"].replace("add", "total")}
    changes["tax"] = files["tax"].replace("due", "owed")
    changes["yard/wall"] = files["yard/wall"].replace("gate", "door")  # behind the door of another room
    assert len({stamp(**{name: text}) for name, text in changes.items()} | {stamp()}) == 6


def test_a_type_that_has_moved_to_another_module_is_no_error(tmp_path: Path) -> None:
    """Its module is gone when the index is read, as after an update of the package."""
    save = """
import sys, types
moved = types.ModuleType("moved")
exec("class Size: ...", moved.__dict__)
sys.modules["moved"] = moved
import tvwrl.machine_code
tvwrl.machine_code.IndexDataCacheFile(sys.argv[1], "kernel", "stamp").save((moved.Size(), 1), "code")
"""
    subprocess.run([sys.executable, "-c", save, tmp_path], check=True)
    cache = tvwrl.machine_code.IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
    assert cache.load(("int", 1)) is None
    cache.save(("int", 1), "new code")
    assert cache.load(("int", 1)) == "new code"
