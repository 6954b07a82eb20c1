"""from_csv and from_json_lines: the rows of a file, by their number. Errors name the file and the line."""

from __future__ import annotations

import csv
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError, FramingError
from streamactors.stages.checks import no_coroutine_function
from streamactors.stages.files.io_result import Path, checked_path
from streamactors.stages.files.text_file import opened_text
from streamactors.stages.framing.text import checked_encoding
from streamactors.stages.sources.iterables import FromIterable

_log = logging.getLogger("streamactors.stages")


@dataclass(frozen=True)
class Dialect:
    """The characters of a CSV file."""

    delimiter: str
    quote: str

    @staticmethod
    def of(operator: str, delimiter: str, quote: str) -> Dialect:
        """Return the dialect. Raises BuildError unless each is one character, and they differ."""
        for name, given in (("delimiter", delimiter), ("quote", quote)):
            if not isinstance(given, str) or len(given) != 1 or given in "\r\n":
                raise BuildError(f"{operator}: {name} must be one character, got {shortened(given, 60)}")
        if delimiter == quote:
            raise BuildError(f"{operator}: delimiter and quote must differ, both are {delimiter!r}")
        return Dialect(delimiter, quote)


def field_names(operator: str, fields: Any) -> tuple[str, ...] | None:
    """Return the names of fields, None for none. Raises BuildError for anything else, and for a name that occurs twice."""
    if fields is None:
        return None
    if isinstance(fields, str) or not isinstance(fields, Sequence) or not all(isinstance(f, str) for f in fields):
        raise BuildError(f"{operator}: fields must be a list of names, got {shortened(fields, 60)}")
    if twice := {name for name in fields if fields.count(name) > 1}:
        raise BuildError(f"{operator}: fields names {min(twice)!r} twice")
    return tuple(fields)


class FromCsv(FromIterable):
    """The stage of `Source.from_csv`."""

    name = "from_csv"

    def __init__(
        self,
        path: Path,
        encoding: str = "utf-8",
        delimiter: str = ",",
        quote: str = '"',
        header: bool = True,
        fields: Sequence[str] | None = None,
        types: Mapping[str, Callable[[str], Any]] | None = None,
    ) -> None:
        names = field_names(self.name, fields)
        if types is not None and (not isinstance(types, Mapping) or not all(map(callable, types.values()))):
            raise BuildError(f"from_csv: types must map names of fields to functions, got {shortened(types, 60)}")
        for field, convert in (types or {}).items():
            no_coroutine_function(f"from_csv: types[{field!r}]", convert)
        if types and not header and names is None:
            raise BuildError("from_csv: types needs names of fields: header=True or fields=[…]")
        if names is not None and (missing := set(types or ()) - set(names)):
            raise BuildError(f"from_csv: types names the field {min(missing)!r}, which fields does not have")
        dialect = Dialect.of(self.name, delimiter, quote)
        rows = _CsvRows(
            checked_path(self.name, path),
            checked_encoding(self.name, encoding),
            dialect,
            bool(header),
            names,
            dict(types or {}),
        )
        super().__init__(rows)
        self.identity = {"file": os.path.abspath(path)}


@dataclass(frozen=True)
class _CsvRows:
    path: Path
    encoding: str
    dialect: Dialect
    header: bool
    fields: tuple[str, ...] | None
    types: Mapping[str, Callable[[str], Any]]

    def __iter__(self) -> Iterator[Any]:
        with opened_text("from_csv", self.path, self.encoding) as text:
            reader = csv.reader(text, delimiter=self.dialect.delimiter, quotechar=self.dialect.quote, strict=True)
            began = 1
            try:
                fields = self._fields(reader) if self.header else self.fields
                began = reader.line_num + 1
                width = None if fields is None else len(fields)
                types = [
                    (i, fields[i], self.types[fields[i]])
                    for i in range(width or 0)
                    if fields and fields[i] in self.types
                ]
                for row in reader:
                    if not row:
                        began = reader.line_num + 1
                        continue
                    if width is None:
                        width = len(row)
                    if len(row) != width:
                        raise self._wrong(began, f"{_count(len(row))}, expected {width}: {shortened(row, 80)}")
                    for i, name, convert in types:
                        try:
                            row[i] = convert(row[i])
                        except Exception as error:
                            raise self._wrong(began, f"field {name!r}: {type(error).__name__}: {error}") from error
                    yield row if fields is None else dict(zip(fields, row, strict=True))
                    began = reader.line_num + 1
            except csv.Error as error:
                raise self._wrong(began, f"{error}{csv_hint(error)}") from None

    def _fields(self, reader: Any) -> tuple[str, ...]:
        first: list[str] | None = next((row for row in reader if row), None)
        if first is None:
            raise self._wrong(1, "the file is empty; its first line must name the fields, or give header=False")
        if self.fields is not None:
            if len(self.fields) != len(first):
                raise self._wrong(
                    reader.line_num, f"the header has {_count(len(first))}, fields= names {len(self.fields)}"
                )
            return self.fields
        if twice := {name for name in first if first.count(name) > 1}:
            raise self._wrong(reader.line_num, f"the header names {min(twice)!r} twice; give other names: fields=[…]")
        delimiter = next((c for c in ";\t|" if len(first) == 1 and c in first[0]), None)
        hint = (
            f"one field, with {delimiter!r} in it; if that divides the fields: delimiter={delimiter!r}"
            if delimiter
            else ""
        )
        if missing := set(self.types) - set(first):
            raise self._wrong(
                reader.line_num,
                f"types names the field {min(missing)!r}, the header has {', '.join(map(repr, first[:10]))}"
                + (f": {hint}" if hint else ""),
            )
        if hint:
            _log.warning(
                "from_csv: %s, line %d: the header %r is %s", os.fspath(self.path), reader.line_num, first[0], hint
            )
        return tuple(first)

    def _wrong(self, line: int, what: str) -> FramingError:
        return FramingError(f"{os.fspath(self.path)}, line {line}: {what}")


class FromJsonLines(FromIterable):
    """The stage of `Source.from_json_lines`."""

    name = "from_json_lines"

    def __init__(self, path: Path, encoding: str = "utf-8") -> None:
        super().__init__(_JsonRows(checked_path(self.name, path), checked_encoding(self.name, encoding)))
        self.identity = {"file": os.path.abspath(path)}


@dataclass(frozen=True)
class _JsonRows:
    path: Path
    encoding: str

    def __iter__(self) -> Iterator[Any]:
        loads = json.loads
        with opened_text("from_json_lines", self.path, self.encoding) as text:
            for number, line in enumerate(text, 1):
                if line.isspace():
                    continue
                try:
                    value = loads(line)
                except json.JSONDecodeError as error:
                    what = f"not JSON: {error.msg}, at column {error.colno}: {shortened(line.rstrip(), 60)}"
                    raise FramingError(f"{os.fspath(self.path)}, line {number}: {what}") from None
                except RecursionError:
                    raise FramingError(f"{os.fspath(self.path)}, line {number}: nested too deeply") from None
                yield value


def _count(fields: int) -> str:
    return f"{fields} field{'' if fields == 1 else 's'}"


def csv_hint(error: csv.Error) -> str:
    """Return the way out of an error of the csv module, as the end of its sentence."""
    if "unexpected end of data" in str(error):
        return ": a quote is open and the file ends"
    if "field larger than field limit" in str(error):
        return ": is a quote missing? Longer fields: csv.field_size_limit(n)"
    return ""
