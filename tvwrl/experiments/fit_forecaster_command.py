"""Compares forecasters of demand and keeps the best network, as `tvwrl forecast` is asked to."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from tvwrl.checks import at_least, different, one_of
from tvwrl.command_line import Names, Shares, SlotSeconds, TraceName
from tvwrl.experiments.cell_options import CellOptions
from tvwrl.experiments.engine import folder_of, refuse_failed
from tvwrl.experiments.evaluate_command import Environment
from tvwrl.experiments.forecaster_cells import OWN, POOLED, SAVED, Comparison, ForecasterCell, cells_of, judged_on_test
from tvwrl.experiments.forecaster_report import Finished, plot_examples
from tvwrl.forecasting import FILE, FORECASTERS, REFERENCE, WINDOWS, read_forecaster
from tvwrl.progress import say
from tvwrl.runs import default_folder, provenance, whole_file, write_csv, write_json
from tvwrl.traces import open_and_describe, trace_hash

DEFAULT = tuple(name for name in FORECASTERS if name != "boosting")  # that one takes minutes
CANDIDATES = (
    f"Forecasters to compare: {', '.join(FORECASTERS)}. boosting takes minutes to fit and is not in the default."
)
LEFT_OUT = ((SAVED, OWN), (SAVED, POOLED))  # of the test, unless chosen
NOTE = f"""Rewards, in thousands, are those of `expected-cost` with these forecasts; differences are paired by
sequence, with 95 % bootstrap intervals over sequences. CRPS, in thousandths of --peak-units, is that of the largest
demand in a segment of the future; 0 is perfect. "While running" is the CRPS of demand alone, given that the workload
still runs; Brier is the score of the probability that it does. Skill is 1 - CRPS / CRPS of {REFERENCE}. The last
columns are coverage: the share of what came, in %, that lies within central intervals of 50 % and 90 %, for segments
and for the peak of the rest of the life."""


@dataclass(frozen=True)
class ForecasterFitOptions(CellOptions):
    """Compare forecasters of demand on unseen series, and keep the best network for tvwrl train --forecaster.

    Networks learn from the trace, from it and other traces, or from other traces only. The command keeps the network
    that gives expected-cost the highest reward on validation sequences, and evaluates it on test series. Writes
    forecaster.json, table.md, report.csv, run.json and plots/ to --out. After Ctrl-C or a crash, run the same command
    with the same --out to continue.
    """

    trace: TraceName = "google"
    slot_seconds: SlotSeconds = None
    also: Names = ()
    """Other traces whose training series networks may learn from. They need the same resources, and slots that divide
    --step-seconds. CSV files are read with --slot-seconds."""
    candidates: Annotated[Names, tyro.conf.arg(help=CANDIDATES)] = DEFAULT
    loads: Shares = (0.3, 0.5, 0.8)
    """Offered loads."""
    sequences: int = 60
    """Validation sequences per load, used to choose the network, and test sequences per load, used to judge it."""
    windows: int = WINDOWS
    """Number of training windows, cut from the training series of each trace."""
    seed: int = 0
    """Seed of everything that is drawn: windows, networks and sequences."""
    environment: tyro.conf.OmitArgPrefixes[Environment] = field(default_factory=Environment)

    def comparison(self) -> Comparison:
        """What is compared. Raises InputError for options that are wrong by themselves or together."""
        self.check_run()
        one_of(FORECASTERS, candidates=self.candidates)
        different(candidates=self.candidates, loads=self.loads)
        at_least(1, sequences=self.sequences, windows=self.windows)
        at_least(0, seed=self.seed)
        compared = Comparison(
            self.trace,
            self.slot_seconds,
            self.also,
            replace(self.environment, observe_forecast=False, observe_peak=False),  # the judge needs neither
            self.loads,
            self.sequences,
            self.windows,
            self.seed,
        )
        compared.check()
        return compared


def fit_forecasters(options: ForecasterFitOptions) -> None:
    """Fit and judge the forecasters, print the tables and write the folder.

    Raises InputError for bad options, and at the end for forecasters that failed, each by name; the others have their
    tables then. KeyboardInterrupt and SystemExit pass through; finished cells are kept.
    """
    trace = open_and_describe(options.trace, options.slot_seconds, say)
    compared = options.comparison()
    out = options.out or default_folder(f"forecaster-{trace.name}")
    cells = cells_of(compared, options.candidates)
    if (failed := options.complete(out, cells)) is None:
        return
    validated = Finished(out, [cell for cell in cells if cell.name not in failed])
    if not validated.cells:
        refuse_failed(failed)
    best = validated.best()
    wanted = [cell for cell in validated.cells if cell == best or (cell.candidate, cell.sources) not in LEFT_OUT]
    judged = [judged_on_test(out, cell) for cell in wanted]
    failed |= options.complete(out, judged) or {}
    tested = Finished(out, [cell for cell in judged if cell.name not in failed])
    text = _text(compared, validated, tested, best)
    _write(out, compared, validated, tested, best, text)
    print(text)
    if best is not None:
        slot = "" if options.slot_seconds is None else f" --slot-seconds {options.slot_seconds}"
        print(f"train with it: tvwrl train --trace {options.trace}{slot} --forecaster {out / FILE}")
    else:
        print("no forecaster was saved: only networks can be, and none was among the candidates or finished")
    print(f"written to {out}")
    refuse_failed(failed)


def _text(compared: Comparison, validated: Finished, tested: Finished, best: ForecasterCell | None) -> str:
    """table.md."""
    parts = ["## Validation series (used to choose)", validated.reward_table(best), validated.scores_table()]
    if best is not None:
        parts.append(f"`{best.title}` has the best mean reward of the networks and is kept.")
        if better := validated.better_than(best):
            names = ", ".join(f"`{name}` (by {gain / 1000:.1f})" for name, gain in better.items())
            parts.append(f"A higher mean reward, but cannot be saved: {names}.")
    if not compared.sampler.holds_out:
        parts.append("Too few series to hold any out: validation series are the training series here.")
    if tested.cells:
        compared_with = best if best is not None and best.title in tested.rewards else None  # its test may have failed
        parts += ["## Test series (used to judge)", tested.reward_table(compared_with), tested.scores_table()]
    parts.append(NOTE)
    return "\n\n".join(parts) + "\n"


def _write(
    out: Path, compared: Comparison, validated: Finished, tested: Finished, best: ForecasterCell | None, text: str
) -> None:
    """Everything but the cells."""
    write_csv(out / "report.csv", [*validated.rows, *tested.rows])
    plots = out / "plots"
    step = compared.scenario.step_seconds
    pictures: dict[str, Callable[[Path], None]] = {"calibration.png": tested.plot_calibration}
    if REFERENCE in validated.scores:
        pictures["skill-validation.png"] = partial(validated.plot_skill, step)
    if REFERENCE in tested.scores:
        pictures["skill.png"] = partial(tested.plot_skill, step)
    if best is not None:
        with whole_file(out / FILE) as copy:
            shutil.copyfile(folder_of(out, best) / FILE, copy)
        pictures["examples.png"] = partial(plot_examples, compared, read_forecaster(out / FILE, compared.sampler))
    for name, draw in pictures.items():
        with whole_file(plots / name) as picture:
            draw(picture)
    trace = compared.opened
    facts = {"trace": {"name": trace.name, "source": trace.source, "hash": trace_hash(trace)}, "also": compared.also}
    chosen = None if best is None else best.title
    write_json(
        out / "run.json",
        provenance() | facts | compared.request() | {"chosen": chosen, "notes": compared.sampler.notes},
    )
    with whole_file(out / "table.md") as file:
        file.write_text(text, encoding="utf-8")
