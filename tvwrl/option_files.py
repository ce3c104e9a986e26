"""Options of a command in a YAML file: read as the words of a command line, and written from what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from tvwrl.types import InputError

FILE = "config"  # the option that names such a file
SWITCH, NULL, MERGE = (f"tag:yaml.org,2002:{kind}" for kind in ("bool", "null", "merge"))
HEAD = "# Options of `tvwrl {command}`: `tvwrl {command} --{option} FILE` asks for the same again.\n"


def read_options(file: Path) -> list[str]:
    """The options of a file as the words of a command line.

    Parameters
    ----------
    file : Path
        A YAML mapping of options, named as in `--help`, to values: `iterations: 100`. Underscores and hyphens are the
        same; a switch is true or false, a list is `[0.3, 0.5]`, and null is no value.

    Raises
    ------
    InputError
        For a file that is missing or no such mapping, an option that is there twice, and a value that no option can
        have.

    Examples
    --------
    >>> Path("mine.yaml").write_text("iterations: 100\\ntrain_loads: [0.3, 0.5]\\ndeeprm: false")  # doctest: +SKIP
    >>> read_options(Path("mine.yaml"))  # doctest: +SKIP
    ['--iterations=100', '--train-loads=0.3,0.5', '--no-deeprm']
    """
    import yaml

    try:
        tree = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise InputError(f"--{FILE} {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--{FILE} {file}: is not a text in UTF-8") from error
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise InputError(f"--{FILE} {file}{line}: is not YAML: {getattr(error, 'problem', None) or error}") from error
    if tree is None:
        return []
    if not isinstance(tree, yaml.MappingNode):
        raise InputError(f"--{FILE} {file}: must have a line for each option, as in `iterations: 100`")
    words, seen = [], dict[str, int]()
    for key, node in tree.value:
        line, option = key.start_mark.line + 1, str(key.value).replace("_", "-")
        where = f"--{FILE} {file}, line {line}: {key.value}"
        if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
            raise InputError(f"--{FILE} {file}, line {line}: must begin with the name of an option")
        if option in seen:
            raise InputError(f"{where} is there already, in line {seen[option]}")
        if option == FILE:
            raise InputError(f"{where}: a file cannot name another one")
        if option in ("help", "help-all"):
            raise InputError(f"{where} is no option of a file")
        seen[option] = line
        words.append(_word(option, node, where))
    return words


def write_options(settings: Any, command: str, without: Sequence[str] = ()) -> str:
    """The text of a file that asks for the same settings again.

    Parameters
    ----------
    settings : dataclass
        Whose fields are the options; those of dataclasses within it are options too.
    command : str
        What takes them: train.
    without : Sequence[str], default ()
        Fields to leave out.
    """
    import yaml

    text: str = yaml.safe_dump(dict(_options(settings, without)), sort_keys=False, allow_unicode=True, width=1000)
    return HEAD.format(command=command, option=FILE) + text


def _options(settings: Any, without: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for one in fields(settings):
        value = getattr(settings, one.name)
        if one.name in without:
            continue
        if is_dataclass(value):
            yield from _options(value, without)
        else:
            yield (
                one.name,
                list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value,
            )


def _word(option: str, node: Any, where: str) -> str:
    """An option with its value as a word of the command line: as it stands in the file, so that 1e-3 is a number."""
    import yaml

    several = isinstance(node, yaml.SequenceNode)
    nodes = node.value if several else [node]
    for one in nodes:
        if not isinstance(one, yaml.ScalarNode) or (several and one.tag in (SWITCH, NULL)):
            raise InputError(f"{where} must be a number, a word, true, false, null, or a list of numbers or words")
    if node.tag == SWITCH:
        return f"--{option}" if yaml.safe_load(node.value) else f"--no-{option}"
    return f"--{option}={'None' if node.tag == NULL else ','.join(one.value for one in nodes)}"
