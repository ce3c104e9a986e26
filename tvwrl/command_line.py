"""What the options of several commands share: lists between commas, and help that is the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo


def split_list(text: str) -> list[str]:
    """Items between commas, without empty ones; a comma in brackets is part of an item, as in `Medea(1,0.5,0.5)`."""
    items, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            items.append("")
        else:
            items[-1] += letter
    return [item.strip() for item in items if item.strip()]


def _split_names(text: str) -> list[str]:
    """Names, or machine types as in `6x8,8,4x16,8`: such an item begins with COUNTx, and its own commas stay."""
    if re.match(r"\d+x", text):
        return [item for item in re.split(r",(?=\d+x)", text) if item]
    return split_list(text)


def _listed(kind: type, split: Callable[[str], list[str]] = split_list, plain: bool = False) -> Any:
    """Several values after one flag, with commas or spaces between them; `plain`: one value is itself, no tuple."""

    def read(words: list[str]) -> Any:
        values = tuple(kind(item) for item in split(",".join(words)))
        return values[0] if plain and len(values) == 1 else values

    return PrimitiveConstructorSpec(
        nargs="*",
        metavar=f"{kind.__name__.upper()},...",
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, tuple) or (plain and isinstance(value, kind)),
        str_from_instance=lambda values: [",".join(map(str, values if isinstance(values, tuple) else (values,)))],
    )


LISTS = ConstructorRegistry()  # how tuples are read, so that dataclasses of options are plain


@LISTS.primitive_rule
def _list_of(of: PrimitiveTypeInfo) -> Any:
    """The rule for a tuple of numbers or names, and for one number or several."""
    if set(get_args(of.type)) == {float, tuple[float, ...]}:
        return _listed(float, plain=True)
    kind, *more = get_args(of.type) if of.type_origin is tuple else (None,)
    if more != [...] or kind not in (int, float, str):
        return None
    return _listed(kind, _split_names) if kind is str else _listed(kind)


def spelled(options: Any, usual: Any, names: Iterable[str] | None = None) -> list[str]:
    """The words by which a command is told those fields of a dataclass that differ from what is usual.

    Parameters
    ----------
    options, usual : dataclass
        What was chosen, and the default.
    names : iterable of str, optional
        The fields to look at; default: all that are options.

    Examples
    --------
    >>> from tvwrl.simulation import Scenario
    >>> spelled(Scenario(split="time", own_past=True, observe_request=False), Scenario())
    ['--split', 'time', '--no-observe-request', '--own-past']
    """
    words = []
    for name in names if names is not None else [field.name for field in fields(usual) if field.init]:
        value, option = getattr(options, name), name.replace("_", "-")
        if value == getattr(usual, name):
            continue
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{option}")
        elif value is not None:
            words += [f"--{option}", *map(str, value if isinstance(value, tuple) else [value])]
    return words


def parse(options: Callable[..., Any], **more: Any) -> Any:
    """What `tyro.cli` makes of the words of the command line, with lists between commas."""
    return tyro.cli(options, registry=LISTS, **more)


def described(meaning: str, default: str = "") -> Any:
    """Help of an option that several commands have, with the default of one of them.

    >>> described("Length of a slot", "300 s").help
    'Length of a slot; default: 300 s.'
    """
    return tyro.conf.arg(help=f"{meaning}; default: {default}." if default else f"{meaning}.")


TRACE = (
    "google or alibaba (the real trace if it is prepared, otherwise a synthetic population; synthetic:google is always "
    "synthetic), the name of a prepared trace, a trace folder or a CSV"
)
TraceName = Annotated[str, described(TRACE)]
SlotSeconds = Annotated[
    int | None, described("Length of a slot of the trace, seconds", "the trace's own (a CSV has none)")
]

ForecasterFile = Annotated[
    Path | None,
    described("Forecaster of demand: a file written by tvwrl forecast, or its folder", "fitted now"),
]

ConfigFile = Annotated[
    Path | None,
    tyro.conf.arg(
        name="config",
        help="YAML file of options, such as config.yaml of another run; those of the command line count more, but "
        "for --preset, whose defaults count less.",
    ),
]
