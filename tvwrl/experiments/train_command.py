"""Trains a policy and compares it with the heuristics, as `tvwrl train` is asked to."""

from __future__ import annotations

from tvwrl.experiments.exploring.explorer_file import first_look
from tvwrl.experiments.tables import terminal_table
from tvwrl.experiments.train_options import TrainingSettings
from tvwrl.experiments.training_runs import EXIT_CODES, check_resume
from tvwrl.experiments.training_steps import begin, compare_with_heuristics, take_up
from tvwrl.progress import say
from tvwrl.runs import how_to_continue
from tvwrl.schedulers import KNOWLEDGE


def train(settings: TrainingSettings) -> int:
    """Train from the start, or from the last checkpoint of a run, then compare; returns the exit code.

    Raises InputError for bad options or a training that diverges; KeyboardInterrupt and SystemExit pass through, and
    leave a checkpoint.
    """
    check_resume(settings)
    trainer = take_up(settings.resume, say) if settings.resume else begin(settings, say)
    again = f"continue with: {how_to_continue(trainer.folder)}"
    try:
        ended = trainer.run(settings.stop_after)
        if ended != "finished":
            say(f"stopped after iteration {trainer.iteration}; {again}")
            return EXIT_CODES[ended]
        found, brought = compare_with_heuristics(trainer, say)
    except (KeyboardInterrupt, SystemExit):  # before its first iteration, a second time, or in the comparison
        say(f"stopped; {again}")
        raise
    print(terminal_table(found.rows, {**KNOWLEDGE, **found.knowledge}))
    if brought:
        print(brought)
    trace = trainer.problem.trace
    print(f"unseen workloads of trace '{trace.name}' ({trace.source}); tables, plots and records are in {found.folder}")
    print(first_look(found.folder))
    return 0
