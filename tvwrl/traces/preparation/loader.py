"""The interface of a loader: which files a source holds, what their rows mean, which facts it knows of workloads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

CONTRADICTS = "contradicts"  # column of facts: whether rows about a workload say different things
EXAMPLES = 5  # number of bad rows named in a report or an error


@dataclass(frozen=True)
class Part:
    """What is read in one go: a file or a piece of it, a member of an archive, a stretch of time of a server."""

    table: str  # name of the published table
    name: str  # of the file that it becomes, unique among the parts of a trace, e.g. "task_usage-00012"
    source: str  # file, "archive::member" or URL
    size: int  # bytes, to share out the work and show progress
    usage: bool = True  # whether it holds usage, else facts about workloads
    detail: tuple[Any, ...] = ()  # whatever else the loader needs, e.g. a stretch of time
    span: tuple[int, int] | None = None  # piece of a file: bytes of text from line end to line end, or rows of Parquet

    @property
    def stamp(self) -> list[Any]:
        """What changes when its content does: size and, for a file, time of modification."""
        path = Path(self.source.split("::")[0])
        return [self.size, path.stat().st_mtime_ns if path.exists() else 0, *map(str, self.detail), *(self.span or ())]


def _no_rows() -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame()


@dataclass
class Rows:
    """A part as it was read.

    A frame of usage has the loader's `keys` and `members`, `begin` and `end` (Int64, microseconds; equal for a sample
    at a moment) and one Float64 column per resource. A frame of facts has columns of the loader's
    choice; one that lacks some keys is passed to `Loader.workloads` whole for every share of the workloads.
    """

    frame: pl.DataFrame = field(default_factory=_no_rows)
    read: int = 0  # rows in the part, good, bad and dropped
    names: pl.DataFrame = field(default_factory=_no_rows)  # distinct ones as they were written, with their blanks
    bad: Counter[str] = field(default_factory=Counter)  # rows that break a rule of the format, by rule
    dropped: Counter[str] = field(default_factory=Counter)  # good rows that are left out, by rule
    examples: list[str] = field(default_factory=list)  # "file: line 7: ...", a few of the bad rows
    empty: list[str] = field(default_factory=list)  # files without a row
    # "use" or "are asked for" -> machine -> the largest share, of those of which more is taken than they have
    overfull: dict[str, dict[str, float]] = field(default_factory=dict)

    def count(self, other: Rows) -> None:
        """Add what was found in another part."""
        self.read += other.read
        self.bad.update(other.bad)
        self.dropped.update(other.dropped)
        self.empty += other.empty
        self.examples = [*self.examples, *other.examples][:EXAMPLES]
        for what, shares in other.overfull.items():
            mine = self.overfull.setdefault(what, {})
            mine.update({machine: max(share, mine.get(machine, 0.0)) for machine, share in shares.items()})

    def drop(self, rule: str, wanted: pl.Expr) -> None:
        """Keep the rows for which `wanted` holds, count the others under `rule`."""
        before = len(self.frame)
        self.frame = self.frame.filter(wanted)
        if before > len(self.frame):
            self.dropped[rule] += before - len(self.frame)


def together(pieces: Iterable[Rows]) -> Rows:
    """The rows of at least one part, as one."""
    import polars as pl

    total, frames = Rows(), []
    for rows in pieces:
        total.count(rows)
        frames.append(rows.frame)
    total.frame = pl.concat(frames)
    return total


def newest_facts(frame: pl.DataFrame, keys: Sequence[str], names: Sequence[str]) -> list[pl.Expr]:
    """What to aggregate the rows about each workload to: of facts that changed or contradict each other the newest.

    The newest is the last row that has the fact, so sort by time where there is one. CONTRADICTS says of each workload
    whether any did, here or in rows that were aggregated before.

    `keys`: columns that name a workload
    `names`: facts, in the frame
    """
    import polars as pl

    several = [pl.col(name).drop_nulls().n_unique() > 1 for name in names]
    before = [pl.col(CONTRADICTS).any()] if CONTRADICTS in frame.columns else []
    contradicts = pl.any_horizontal(*several, *before) if several or before else pl.lit(False)
    return [*(pl.col(name).drop_nulls().last() for name in names if name not in keys), contradicts.alias(CONTRADICTS)]


@dataclass
class Extras:
    """Tables to store beside the trace, and what was found in the published tables that they are made of."""

    tables: dict[str, pl.DataFrame] = field(default_factory=dict)  # by file name without suffix: machines, tasks, ...
    read: dict[str, Rows] = field(default_factory=dict)  # by published table, those left out that are parts too


class Loader(ABC):
    """One family of traces. Instances are small and can be sent to another process."""

    name: ClassVar[str]  # of the family, and of the trace that it makes
    version: ClassVar[int] = 1  # rises when what it reads means something else: what is kept of older ones is not used
    min_records: ClassVar[int] = 288  # default of --min-records
    paper_records: ClassVar[int | None] = None  # what --paper-filter asks for; None: the papers do not use this trace

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of the resources."""
        return ("cpu", "mem")

    @property
    def slot_seconds(self) -> int:
        """Interval of the published records, the default slot."""
        return 300

    @property
    def sample_seconds(self) -> int:
        """How long a sample at a moment is valid where slots are shorter; 0: only in the slot that it lies in."""
        return 0

    @property
    @abstractmethod
    def reference_machine(self) -> Any:
        """What 1.0 means."""

    @property
    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """Columns that name a workload, joined by "-" into its id."""

    @property
    def members(self) -> tuple[str, ...]:
        """Columns that identify the members summed into one workload (tasks of a job)."""
        return ()

    def at(self, source: str) -> Self:
        """The loader with what the source settles, such as the reference machine; by default itself."""
        return self

    @abstractmethod
    def parts(self, source: str) -> list[Part]:
        """The input, in a fixed order. Raises InputError if `source` does not hold this trace."""

    @abstractmethod
    def read(self, part: Part) -> Rows:
        """Read and check one part. Raises InputError if it cannot be read at all."""

    @abstractmethod
    def workloads(self, facts: dict[str, pl.DataFrame]) -> pl.DataFrame | None:
        """What is known of workloads, from their facts by table (those of one share of all workloads).

        Columns: `keys` or some of them, and any of `application, priority, class, request_<resource>`, `dropped` (why
        the workload is not wanted, else null), `scale_<resource>` (factor on its usage), CONTRADICTS. None: nothing is
        known. A workload has one row at most (`newest_facts`).
        """

    def extras(self, source: str) -> Extras:
        """Other tables worth storing; read before the parts, because a fault in them ends the run."""
        return Extras()


HOW_TO_GET = "docs/how-to/prepare-a-trace.md says where it is published"


def not_found(source: str | Path, needed: str, where: str = "") -> InputError:
    """The error for a source without the file that its loader needs."""
    folder = Path(source)
    if not folder.exists():
        return InputError(f"{folder}: no such file or folder")
    if not folder.is_dir():
        return InputError(f"{folder}: this is not {needed}")
    hint = f"; {where}" if where else ""
    return InputError(f"{folder}: {'no' if any(folder.iterdir()) else 'the folder is empty: no'} {needed} here{hint}")
