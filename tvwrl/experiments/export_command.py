"""Writes a trained policy and its model card for `tvwrl export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from tvwrl.experiments.model_card import model_card
from tvwrl.progress import say
from tvwrl.runs import whole_file
from tvwrl.types import InputError

SUFFIX = ".onnx"


@dataclass(frozen=True)
class ExportSettings:
    """Write a trained policy to one ONNX file that runs elsewhere, with all preprocessing inside, and a model card.

    The file schedules without PyTorch.
    """

    run: tyro.conf.Positional[Path]
    """Training run: its folder or a .pt file."""
    file: Path | None = None
    """File to write; default: in the run's folder, RUN.onnx. The model card is written beside it, with the
    ending .md."""
    license: str = "other"
    """Identifier of the policy's licence, for the card; the trace may have terms of its own."""
    trace_terms: str = ""
    """Terms of the trace, for the card, as in "CC BY 4.0, by Google"."""


def export(settings: ExportSettings) -> None:
    """Write both files, and say where they are.

    Raises InputError for a run that is missing or chooses no machines, a name with another ending, and libraries that
    are missing.
    """
    if settings.file is not None and settings.file.suffix != SUFFIX:
        raise InputError(f"file is {settings.file}: its name must end in {SUFFIX}")
    from tvwrl.agents import Checkpoint, export_policy, find_checkpoint, is_shipped, located, write_export

    if is_shipped(settings.run):
        raise InputError(f"{settings.run} is exported already: {located(settings.run)}")
    source = find_checkpoint(settings.run.expanduser()).resolve()
    saved = Checkpoint.load(source)
    name, folder = _name_and_folder(source)
    file = settings.file or folder / f"{name}{SUFFIX}"
    say(f"exporting the policy of iteration {saved.iteration} of '{name}' and comparing it with the original")
    made = export_policy(saved, name)
    card = model_card(made, saved, file, source, settings.license, settings.trace_terms)
    write_export(made, file)
    with whole_file(file.with_suffix(".md")) as partial:
        partial.write_text(card, encoding="utf-8")
    print(
        f"logits differ from the policy's own by {made.difference:.1e} at most, in {made.states} random states\n"
        f"written to {file} ({len(made.content) / 1e6:.2f} MB) and {file.with_suffix('.md')}"
    )


def _name_and_folder(source: Path) -> tuple[str, Path]:
    """The name of the run that a checkpoint is of, and the folder for what is made of it."""
    if source.parent.name == "checkpoints":
        return source.parent.parent.name, source.parent.parent
    return source.stem, source.parent
