"""Agents trained on every trace with several seeds, beside all other schedulers at every load: from cells to a page.

An agent, and DeepRM, is trained at all loads in turn and plays at each; heuristics are played once per trace and load,
on the same sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvwrl.agents.deeprm.scheduler import KNOWLEDGE as OF_DEEPRM
from tvwrl.agents.policy_scheduler import knowledge_of
from tvwrl.bench.cells import HEURISTICS, Bench, Cell, read_rows
from tvwrl.bench.results_page import plot_results, write_page
from tvwrl.bench.targets import AGENTS, DEEPRM, LEARNT
from tvwrl.markdown import preserved_introduction
from tvwrl.runs import provenance, whole_file, write_json
from tvwrl.schedulers import KNOWLEDGE
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

NAME = "results"


def results_cells(
    traces: Sequence[str], loads: Sequence[float], seeds: Sequence[int], agents: Sequence[str]
) -> list[Cell]:
    """By trace and load: heuristics, by seed DeepRM and the agents (of `AGENTS`) trained once for all loads."""
    cells = []
    for trace in traces:
        for load in loads:
            at, scenario = f"{trace}, load {load:g}", {"load": load}
            cells.append(Cell(at, HEURISTICS, trace, HEURISTICS, scenario))
            for seed in seeds:
                cells.append(Cell(at, DEEPRM, trace, DEEPRM, scenario, trained_in={}, seed=seed))
                for agent in agents:
                    shown = AGENTS[agent]
                    cells.append(Cell(at, agent, trace, "tvw-rl", shown | scenario, trained_in=shown, seed=seed))
    return cells


def finished_rows(bench: Bench, cells: Sequence[Cell]) -> pl.DataFrame:
    """Rows of the evaluations that are done; `column`: the scheduler, `knowledge`: the group of its.

    Raises InputError if none is done, or two of one trace and load were not of the same sequences.
    """
    import polars as pl

    finished = [cell for cell in cells if bench.rows_file(cell).exists()]
    if not finished:
        raise InputError(f"{bench.out / 'cells'} holds no finished evaluation of these traces, loads and seeds")
    name = pl.when(pl.col("column").is_in(list(LEARNT))).then(pl.col("column")).otherwise(pl.col("scheduler"))
    knowledge = {name: known.group for name, known in KNOWLEDGE.items()} | {DEEPRM: OF_DEEPRM.group}
    knowledge |= {agent: knowledge_of(replace(bench.base.scenario, **seen)).group for agent, seen in AGENTS.items()}
    rows = read_rows(bench, finished).with_columns(column=name)
    played = rows.group_by("group", "run").agg(
        pl.struct("sequence", pl.col("offered_load").round(9)).unique().sort().implode()
    )
    for (group,), part in played.group_by("group", maintain_order=True):
        if part["sequence"].n_unique() > 1:
            raise InputError(f"{group}: cells were evaluated on different sequences: give another --out")
    return rows.with_columns(knowledge=pl.col("column").replace_strict(knowledge))


def trainings(bench: Bench, cells: Sequence[Cell]) -> pl.DataFrame:
    """A row per agent, or DeepRM, and evaluation: `group, trace, agent, seed`, `iterations` done `of` how many, whether
    `evaluated`; `seconds` that `timed` of the iterations took, on a machine of how many `cores`, at which `commit`."""
    import polars as pl

    rows: list[dict[str, Any]] = []
    for cell in cells:
        if cell.column not in LEARNT:
            continue
        sessions = bench.sessions(cell)
        rows.append(
            {
                "group": cell.group,
                "trace": cell.trace,
                "agent": cell.column,
                "seed": cell.seed,
                "iterations": bench.iterations_done(cell),
                "of": bench.config(cell).iterations,
                "evaluated": bench.rows_file(cell).exists(),
                "seconds": float(sum(one["seconds"] for one in sessions)),
                "timed": sum(one["after"] - one["before"] for one in sessions),
                "cores": ", ".join(dict.fromkeys(str(one["cores"]) for one in sessions)),
                "commit": ", ".join(dict.fromkeys(str(one["commit"])[:9] for one in sessions)),
            }
        )
    return pl.DataFrame(rows)


def write_results(bench: Bench, cells: Sequence[Cell], page: Path | None, head: str, facts: dict[str, Any]) -> Path:
    """rows.csv, trainings.csv and run.json of what is finished, and the page made from them, which it returns.

    `page`: the Markdown file (default: results.md beside the rows); its pictures go into a folder of that name beside
    it, and what is written by hand at its top stays. Raises InputError where nothing is finished.
    """
    import polars as pl

    folder = bench.out / NAME
    page = page or folder / "results.md"
    tables = {"rows": finished_rows(bench, cells), "trainings": trainings(bench, cells)}
    for name, table in tables.items():
        with whole_file(folder / f"{name}.csv") as partial:
            table.write_csv(partial)
    write_json(folder / "run.json", provenance() | facts | {"cells": [cell.run for cell in cells]})
    rows, trained = (pl.read_csv(folder / f"{name}.csv", schema_overrides=t.schema) for name, t in tables.items())
    groups = list(dict.fromkeys(cell.group for cell in cells))
    pictures = plot_results(rows, page.with_suffix(""))
    with whole_file(page) as partial:
        text = write_page(rows, trained, groups, head, pictures)
        partial.write_text(f"{preserved_introduction(page, 'Results')}\n\n{text}", encoding="utf-8")
    return page
