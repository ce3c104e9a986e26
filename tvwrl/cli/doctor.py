"""`tvwrl doctor`: what is installed, what works, which traces are here, and what to do where something is wrong."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path

from tvwrl.cli.dispatch import check_folder
from tvwrl.types import InputError

NOT_FOR_USERS = ("dev", "sklx")  # extras for work on the package itself
MODULES = {"scikit-learn": "sklearn", "pillow": "PIL"}  # where it is not called like the distribution


@dataclass(frozen=True)
class DoctorOptions:
    """Say what is installed, which traces are on this machine, and whether everything that is needed works.

    If something that is needed is broken, its line says what to do, and the exit code is 1.
    """


@dataclass(frozen=True)
class Finding:
    """A line of the report."""

    about: str
    text: str
    cure: str = ""  # what to do; empty if nothing is wrong


def examine(options: DoctorOptions) -> int:
    """Print the report; returns 1 if something is broken."""
    broken = 0
    for title, findings in (
        ("Versions", _versions()),
        ("Extras", _extras()),
        ("Kernels", _kernels()),
        ("Kept between runs", _prepared()),
        ("Traces", _traces()),
        ("This machine", _machine()),
    ):
        print(f"{title}:")
        for one in findings:
            print(f"  {one.about:<18}{one.text}")
            if one.cure:
                print(f"  {'':<18}-> {one.cure}")
                broken += 1
        print()
    print(
        f"{broken} {'thing is' if broken == 1 else 'things are'} broken"
        if broken
        else "everything that is needed works"
    )
    return min(broken, 1)


def _versions() -> Iterator[Finding]:
    from tvwrl import __file__ as file
    from tvwrl import __version__

    yield Finding("tvwrl", f"{__version__} in {Path(file).parent}")
    yield Finding("Python", f"{platform.python_version()} ({sys.executable})")
    for name in _required().get("", ()):
        try:
            import_module(MODULES.get(name, name.replace("-", "_")))
            yield Finding(name, metadata.version(name))
        except Exception as error:
            yield Finding(name, f"broken: {_first_line(error)}", f"pip install --force-reinstall {name}")


def _extras() -> Iterator[Finding]:
    """An extra that is missing is not a fault."""
    for extra, names in _required().items():
        if extra and extra not in NOT_FOR_USERS:
            there = [f"{name} {metadata.version(name)}" for name in names if _is_installed(name)]
            missing = f"not installed: pip install 'tvwrl[{extra}]'"
            yield Finding(extra, ", ".join(there) if len(there) == len(names) else missing)


def _required() -> dict[str, list[str]]:
    """Extra of the package, "" for what it always needs -> the distributions that it brings."""
    found: dict[str, list[str]] = {}
    for requirement in metadata.requires("tvwrl") or ():
        name = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"extra == .([\w-]+).", requirement)
        if name is not None and name[0] != "tvwrl":
            found.setdefault(extra[1] if extra else "", []).append(name[0])
    return found


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _kernels() -> Iterator[Finding]:
    """Where compiled kernels are kept, and whether they can be."""
    from numba import config

    place = Path(config.CACHE_DIR) if config.CACHE_DIR else Path(__file__).resolve().parents[1]
    yield Finding("cache", f"{place}; compiled code is kept here; tvwrl warm-up compiles it all now")
    try:
        check_folder(place, "the cache")
    except InputError as error:
        cure = "set NUMBA_CACHE_DIR to a folder that can be written to: without one, every process compiles"
        yield Finding("", str(error), cure)


def _prepared() -> Iterator[Finding]:
    """What was fitted and drawn before."""
    from tvwrl.disk_cache import cache_folder

    folder = cache_folder()
    if folder is None:
        yield Finding("folder", "TVWRL_CACHE is off: every process fits classes and forecasters for itself")
        return
    size = sum(one.stat().st_size for one in folder.iterdir()) if folder.is_dir() else 0
    told = "classes, forecasters and sequences of tasks that were fitted or drawn before (TVWRL_CACHE)"
    yield Finding("folder", f"{folder}, {size / 2**20:,.0f} MiB: {told}")


def _traces() -> Iterator[Finding]:
    """Prepared traces, each read."""
    from tvwrl.traces import HEADER, data_folder

    data = data_folder()
    told = "TVWRL_DATA" if os.environ.get("TVWRL_DATA") else "TVWRL_DATA is not set"
    yield Finding("looked for in", f"{data} ({told})" + ("" if data.is_dir() else ": no such folder yet"))
    yield Finding("google, alibaba", "synthetic ones come with the package")
    if data.is_dir():
        for folder in sorted(data.iterdir()):
            if (folder / HEADER).is_file():
                yield _trace(folder)


def _trace(folder: Path) -> Finding:
    from tvwrl.traces import read_trace

    try:
        trace = read_trace(folder)
    except (InputError, OSError) as error:
        return Finding(folder.name, f"broken: {_first_line(error)}", "prepare it again: tvwrl prepare")
    return Finding(folder.name, f"{len(trace):,} workloads, slots of {trace.slot_seconds} s")


def _machine() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    yield Finding("cores, memory", f"{cores} cores, {memory:.0f} GiB")
    yield Finding("GPU", _gpu())
    here = Path.cwd()
    try:
        check_folder(here / "runs", "--out")
        yield Finding("this folder", f"{here} can be written to")
    except InputError:
        cure = "work in another folder, or give every command --out FOLDER"
        yield Finding("this folder", f"{here}: nothing can be written to runs/ in it", cure)


def _gpu() -> str:
    try:
        import torch
    except Exception:
        return "unknown: torch is not installed"
    if not torch.cuda.is_available():
        return "none that torch can use (training needs none)"
    return ", ".join(torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count()))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
