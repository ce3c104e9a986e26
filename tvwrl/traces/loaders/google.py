"""What the Google traces of 2011 and 2019 have in common: what their events say of tasks, of jobs and of machines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tvwrl.deferring import deferred
from tvwrl.traces.preparation.files import parts_of
from tvwrl.traces.preparation.loader import CONTRADICTS, Extras, Loader, Part, Rows, newest_facts, together

if TYPE_CHECKING:
    import polars as pl
else:
    pl = deferred("polars")

REQUESTS = ("request_cpu", "request_mem")
FACTS = ("class", "priority", *REQUESTS, "logical_name", "outcome")  # of an event; null where the file has none


@dataclass(frozen=True)
class Google(Loader):
    """Workloads are members (tasks, instances) or groups of them (jobs, collections), with events of both."""

    per: str
    keep_ended: bool = False
    """Keep workloads that were evicted, killed, failed or lost, or recorded only in part."""

    paper_records: ClassVar[int | None] = 6000
    ids: ClassVar[tuple[str, str]]  # columns that name a group, and a member of it
    events: ClassVar[tuple[str, str]]  # tables of the events of groups, and of members
    ended: ClassVar[Mapping[int, str]]  # types of events after which a workload is not wanted, as the report names them

    @property
    def grouped(self) -> bool:
        """Whether a workload is a group."""
        return self.per in ("job", "collection")

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that name a workload."""
        return self.ids[:1] if self.grouped else self.ids

    @property
    def members(self) -> tuple[str, ...]:
        """Columns of what is summed."""
        return self.ids[1:] if self.grouped else ()

    @abstractmethod
    def files(self, source: str, table: str) -> list[Path]:
        """The files of a published table."""

    @abstractmethod
    def first_machines(self, part: Part) -> Rows:
        """`cpu` and `mem` of the machines that a part of machine_events adds at the trace's beginning."""

    def outcomes(self, kind: str) -> pl.Expr:
        """`outcome`: the type of an event, from column `kind`, if the workload has ended badly with it."""
        return pl.when(pl.col(kind).is_in(list(self.ended))).then(kind).alias("outcome")

    def last_facts(self, events: pl.DataFrame) -> pl.DataFrame:
        """One row per workload of its events, or of such rows: when it was last seen, and what was last known of it.

        `events` has `ids` or the first of them, `time`, any of FACTS, and `partly` (whether events are missing).
        """
        keys = [key for key in self.ids if key in events.columns]
        last = newest_facts(events, keys, [name for name in FACTS if name in events.columns])
        partly = [pl.col("partly").any()] if "partly" in events.columns else []
        groups = events.sort("time", maintain_order=True).group_by(keys, maintain_order=True)
        return groups.agg(pl.col("time").last(), *last, *partly)

    def workloads(self, facts: dict[str, pl.DataFrame]) -> pl.DataFrame | None:
        """Request, priority and class from the events of members; application, and maybe outcome, from those of groups.

        The outcome of a group, and of members without events, is that of the group's own events.
        """
        group_events, member_events = self.events
        known = {table: self.last_facts(frame) for table, frame in facts.items()}
        groups = known.pop(group_events, None)
        own = next(iter(known.values()), None)
        if own is None:
            return None if groups is None else self._wanted(groups)
        if self.grouped:
            own = self._sum(own)
        if groups is not None:
            decides = self.grouped or member_events not in known
            columns = ["logical_name", "outcome", "partly"] if decides else ["logical_name"]
            group = self.ids[0]
            groups = groups.rename({CONTRADICTS: "of_group"})
            own = own.drop(columns, strict=False).join(groups.select(group, "of_group", *columns), on=group, how="left")
            own = own.with_columns(pl.col(CONTRADICTS) | pl.col("of_group").fill_null(False))
        return self._wanted(own)

    def _sum(self, members: pl.DataFrame) -> pl.DataFrame:
        """One row per group: the sum of its members' requests, other facts of the last, an outcome if all ended."""
        requests = [pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in REQUESTS]
        last = [pl.col(name).drop_nulls().last() for name in ("class", "priority")] + [pl.col(CONTRADICTS).any()]
        outcome = pl.when(pl.col("outcome").is_not_null().all()).then(pl.col("outcome").last())
        groups = members.group_by(self.ids[0], maintain_order=True)
        return groups.agg(*requests, *last, outcome.alias("outcome"), pl.col("partly").all())

    def _wanted(self, known: pl.DataFrame) -> pl.DataFrame:
        """Facts as `Loader.workloads` gives them."""
        application = pl.col(self.ids[0]).cast(pl.String)
        if "logical_name" in known.columns:
            application = pl.col("logical_name").fill_null(application)
        partly = pl.when(pl.col("partly")).then(pl.lit("that were recorded only in part"))
        outcome = pl.col("outcome").replace_strict(self.ended, default=None, return_dtype=pl.String)
        dropped = pl.lit(None, pl.String) if self.keep_ended else pl.coalesce(outcome, partly)
        known = known.with_columns(application=application, dropped=dropped)
        wanted = ("application", "priority", "class", *REQUESTS, "dropped", CONTRADICTS)
        return known.select(name for name in (*self.keys, *wanted) if name in known.columns)

    def extras(self, source: str) -> Extras:
        """The kinds of machines at the trace's beginning, and how many there are of each."""
        parts = parts_of("machine_events", self.files(source, "machine_events"), usage=False)
        if not parts:
            return Extras()
        events = together(map(self.first_machines, parts))
        kinds = events.frame.drop_nulls().group_by("cpu", "mem").len("machines")
        return Extras({"machines": kinds.sort("machines", "cpu", "mem", descending=True)}, {"machine_events": events})
