"""Tables that a user brings, CSV or Parquet: how they are read, and how what is wrong in one is refused."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from tvwrl.types import Float, InputError, Int, Strings

if TYPE_CHECKING:
    import polars as pl


LISTED = 12  # columns that a message lists
DAMAGE = (OSError, EOFError, zlib.error, zipfile.BadZipFile)  # what reading a file may raise
GZIP = b"\x1f\x8b"  # what is packed by it begins with
MARKS = {  # what text in these encodings may begin with; the mark of UTF-32 begins with that of UTF-16
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
ENDS_OF_TAR = ("unexpected end of data", "truncated header")  # where one is truncated
BEGINNING = 4096  # bytes of a file that show its encoding


def csv_text(path: Path) -> str:
    """The text of a .csv file, unpacked if gzip packed it, without the mark that UTF-8 may begin with.

    Raises InputError, which says what to do, for a truncated file, for text that is not UTF-8, and for a line that only
    spreadsheets read.
    """
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if data.startswith(GZIP) else data
    except DAMAGE as error:
        raise unreadable(str(path), "", error) from None
    text = decoded(str(path), 0, data).removeprefix("\ufeff")
    refuse_spreadsheet_line(str(path), text.partition("\n")[0])
    return text


def decoded(source: str, before: int, block: bytes) -> str:
    """Some text of a file that comes after `before` lines. Raises InputError if it is not UTF-8."""
    if not before and (found := _wide_encoding(block[:BEGINNING])):
        convert = f"iconv -f {found} -t UTF-8 FILE > NEW_FILE"
        raise InputError(f"{source}: line 1: this is {found}, but UTF-8 is required; convert it with: {convert}")
    try:
        return block.decode()
    except UnicodeDecodeError as error:
        line = before + block.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{source}: line {line}: byte 0x{block[error.start]:02x} is not UTF-8, which is required; "
            "convert text in Latin-1 with: iconv -f ISO-8859-1 -t UTF-8 FILE > NEW_FILE"
        ) from None


def _wide_encoding(beginning: bytes) -> str | None:
    """The encoding of text of two or four bytes a character, as iconv calls it; None for any other text.

    Without a mark it shows by null bytes, which are every second one of Latin letters, digits and separators.
    """
    for name, marks in MARKS.items():
        if beginning.startswith(marks):
            return name
    even, odd = (beginning[place::2].count(0) > len(beginning) / 4 for place in (0, 1))
    return None if even == odd else "UTF-16BE" if even else "UTF-16LE"


def refuse_spreadsheet_line(source: str, first: str, separator: str | None = None) -> None:
    """Raise InputError if the `first` line of a table is one like sep=; that tells spreadsheets the separator.

    `separator`: that of the table, where --separator can name another one
    """
    line = first.rstrip("\r\n")
    if line.lower().startswith("sep=") and len(line) <= len("sep=") + 1:
        own = line[len("sep=") :]
        other = f", and name the separator: --separator '{own}'" if separator and own not in ("", separator) else ""
        raise InputError(
            f"{source}: line 1 is '{line}', which only spreadsheets read: line 1 must hold the names of the "
            f"columns; remove it with: tail -n +2 FILE > NEW_FILE{other}"
        )


def unreadable(source: str, where: str, error: BaseException) -> InputError:
    """What is wrong with a file that cannot be read on, `where` (such as " past line 3"), and what to do about it."""
    if isinstance(error, gzip.BadGzipFile) and not _begins_as_gzip(source):
        return InputError(f"{source}: its name ends with .gz, but gzip did not pack it: remove .gz if it is plain text")
    if isinstance(error, gzip.BadGzipFile) and "Not a gzipped file" in str(error):
        return InputError(f"{source}: something that gzip did not pack follows what it packed: is it damaged?")
    if isinstance(error, EOFError) or any(end in str(error) for end in ENDS_OF_TAR):
        again = "copy or download it again (gzip -t FILE checks a copy)"
        return InputError(f"{source}: cannot be read{where}: it is truncated; {again}")
    if isinstance(error, OSError) and error.errno is not None:  # the disk or its permissions, not the content
        return InputError(f"{source}: cannot be read{where}: {error.strerror}")
    return InputError(f"{source}: cannot be read{where}, truncated or damaged: {error}")


def _begins_as_gzip(source: str) -> bool:
    with Path(source).open("rb") as file:
        return file.read(len(GZIP)) == GZIP


def no_column(source: str | Path, name: str, names: Iterable[str], hint: str = "") -> InputError:
    """The error for a table whose columns `names` lack one that is needed; `hint`: how it ends."""
    there = list(names)
    more = f" and {len(there) - LISTED} more" if len(there) > LISTED else ""
    return InputError(
        f"{source}: no column '{name}'; the columns are: {', '.join(there[:LISTED]) or 'none'}{more}{hint}"
    )


def read_table(path: Path, columns: Sequence[str] = ()) -> pl.DataFrame:
    """A .parquet or .csv file (also .csv.gz), as it is. Raises InputError if it cannot be read or lacks a column."""
    import polars as pl

    try:
        table = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema_length=None)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    InputTable(str(path), table).need(*columns)
    return table


@dataclass(frozen=True)
class InputTable:
    """A table whose methods raise InputError with file, row (from 1) and column for what they cannot use."""

    source: str  # named in errors
    frame: pl.DataFrame
    written: pl.DataFrame | None = None  # the frame with the blanks around its values, if there were any

    @classmethod
    def read(cls, path: Path) -> InputTable:
        """A .csv file (also .csv.gz) with every value as text, null if empty; a .parquet file as it is.

        Blanks around names and values, and blank rows, are left out; rows that end early are filled up with nulls.
        Refuses columns without a name or given twice, rows with too many values, quotes that are not closed, and
        other separators than commas.
        """
        import polars as pl

        if path.suffix == ".parquet":
            return cls(str(path), read_table(path))
        try:
            quotes_closed = csv.reader(io.StringIO(csv_text(path), newline=""), strict=True)
            written = [line for line in quotes_closed if any(value.strip() for value in line)]
        except csv.Error as error:
            raise InputError(f"{path}: cannot be read: {error}") from None
        names, *rows = [[value.strip() for value in line] for line in written] or [[]]
        if not names:
            raise InputError(f"{path}: the file is empty")
        if len(names) == 1 and (other := next((mark for mark in ";\t|" if mark in names[0]), None)):
            raise InputError(f"{path}: the columns are separated by {other!r}: must be by ','")
        if "" in names:
            raise InputError(f"{path}: column {names.index('') + 1} has no name; the columns are: {', '.join(names)}")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"{path}: column '{twice}' is given {names.count(twice)} times; must be once")
        for number, row in enumerate(rows, 1):
            if len(row) > len(names):
                raise InputError(
                    f"{path}: row {number} has {len(row)} values: must be at most {len(names)}: {', '.join(names)}"
                )

        def frame_of(lines: list[list[str]]) -> pl.DataFrame:
            filled = [[value or None for value in line] + [None] * (len(names) - len(line)) for line in lines]
            return pl.DataFrame(filled, schema=dict.fromkeys(names, pl.String), orient="row")

        return cls(str(path), frame_of(rows), None if written[1:] == rows else frame_of(written[1:]))

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def columns(self) -> list[str]:
        """Their names, in order."""
        return self.frame.columns

    def need(self, *columns: str) -> None:
        """Refuse the table if it lacks one of these columns."""
        if missing := [name for name in columns if name not in self.columns]:
            raise no_column(self.source, missing[0], self.columns)

    def need_rows(self) -> None:
        """Refuse the table if it has no rows."""
        if not len(self):
            raise InputError(f"{self.source}: no rows under the header")

    def only(self, known: Sequence[str], what: str, other_words: Mapping[str, str] | None = None) -> None:
        """Refuse a column that is none of `known`, so that none is ignored unnoticed.

        `what` says what such a column is not, as in "no resource of applications.csv". `other_words`: names that may
        have been meant as one of `known`, though not near it.
        """
        small = {name.casefold(): name for name in known}
        for name in self.columns:
            if name not in known:
                close = [meant for word, meant in (other_words or {}).items() if word == name.casefold()]
                close = close or [small[one] for one in get_close_matches(name.casefold(), small, n=1)]
                hint = f"did you mean '{close[0]}'? Rename it in this file" if close else "leave it out"
                raise InputError(f"{self.source}: column '{name}' is {what}: must be one of {', '.join(known)}; {hint}")

    def refuse(self, row: int, fault: str) -> NoReturn:
        """Raise InputError with the source, the number of the row (`row` + 1: `row` counts from 0) and its `fault`."""
        raise InputError(f"{self.source}: row {row + 1}: {fault}")

    def text(self, column: str) -> pl.Series:
        """(rows,) names in a column, without the blanks around them; null where there is none.

        Refuses two that differ in nothing but such blanks: one name would stand for two things.
        """
        import polars as pl

        given = (self.frame if self.written is None else self.written)[column].cast(pl.String)
        refuse_spelt_twice(given.to_frame(), lambda row: f"row {row + 1}", f"{self.source}: ")
        text = given.str.strip_chars()
        return text.set(text == "", None)

    def names(self, column: str) -> Strings:
        """(rows,) those of `text`, all there."""
        names = self.text(column).fill_null("").to_numpy().astype(object)
        if (empty := names == "").any():
            self.refuse(int(np.argmax(empty)), f"{column} is empty")
        return names

    def positions(self, column: str, known: Mapping[str, int], what: str) -> Int:
        """(rows,) what the names in a column stand for in `known`; `what` says what they name, as in "application"."""
        names = self.names(column)
        found = np.array([known.get(name, -1) for name in names], np.int64)
        if (unknown := found < 0).any():
            row = int(np.argmax(unknown))
            small = {name.casefold(): name for name in known}
            close = get_close_matches(names[row].casefold(), small, n=1, cutoff=0.8)
            meant = f"; did you mean {quoted(small[close[0]])}?" if close else ""
            self.refuse(row, f"{column} is {quoted(names[row])}, which is no {what} here{meant}")
        return found

    def numbers(self, column: str, least: float = -np.inf, most: float = np.inf) -> Float:
        """(rows,) finite numbers of a column, from `least` to `most`."""
        return self._within(column, "number", least, most)

    def whole_numbers(self, column: str, least: float, most: float = np.inf, empty: int | None = None) -> Int:
        """(rows,) whole numbers of a column, from `least` to `most`, and `empty` where it is empty, if given."""
        return self._within(column, "whole number", least, most, empty).astype(np.int64)

    def _within(self, column: str, kind: str, least: float, most: float, empty: int | None = None) -> Float:
        import polars as pl

        given = self.frame[column]
        values = given.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy().astype(np.float64)
        good = np.isfinite(values) & (least <= values) & (values <= most)
        if kind == "whole number":
            good &= values == np.rint(values)
        if empty is not None:
            blank = given.is_null().to_numpy()
            values, good = np.where(blank, empty, values), good | blank
        if not good.all():
            row = int(np.argmin(good))
            most_text = f"{most:.0f}" if kind == "whole number" else f"{most:g}"
            limit = f" of at least {least:g}" if most == np.inf else f" from {least:.0f} to {most_text}"
            limit = "" if least == -np.inf else limit
            self.refuse(row, f"{column} is {quoted(given[row])}: must be a {kind}{limit}")
        return values


def quoted(value: object) -> str:
    """A value in a message: numbers as they are, other text in quotes, with letters that cannot be seen as codes."""
    if value is None:
        return "empty"
    if not (text := str(value)).isprintable():
        return ascii(text)
    try:
        return str(value) if np.isfinite(float(str(value))) else f"'{value}'"
    except ValueError:
        return f"'{value}'"


def spelt_twice(given: pl.DataFrame) -> tuple[str, int, int] | None:
    """The first column, and two of its rows, whose names differ in nothing but the blanks around them."""
    import polars as pl

    for name in given.columns:
        once = given[name].unique()
        if not (once != once.str.strip_chars()).any():  # as nearly always
            continue
        rows = given.lazy().select(pl.col(name).alias("raw"), pl.int_range(pl.len()).alias("row"))
        rows = rows.with_columns(name=pl.col("raw").str.strip_chars()).filter(pl.col("name") != "")
        rows = rows.with_columns(first=pl.col("raw").first().over("name"), above=pl.col("row").first().over("name"))
        found = rows.filter(pl.col("raw") != pl.col("first")).select("above", "row").head(1).collect()
        if len(found):
            above, row = found.row(0)
            return name, int(above), int(row)
    return None


def refuse_spelt_twice(given: pl.DataFrame, place: Callable[[int], str], source: str = "") -> None:
    """Raise InputError for names that `spelt_twice` finds: whether they are one workload, only their author knows.

    `place`: of a row, in words; `source`: what the message begins with, if all rows are in one file
    """
    if found := spelt_twice(given):
        name, above, row = found
        one, other = given[name][row], given[name][above]
        raise InputError(
            f"{source}{place(row)}: {name} is {one!r}, but {other!r} in {place(above)}: blanks around a name are no "
            "part of it; write it alike in all rows, or two names that differ in more"
        )
