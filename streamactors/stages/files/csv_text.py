"""CsvText: rows as the text of a CSV file; what `to_csv` and `format_csv` write."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, Literal

from streamactors.engine.user_code import shortened
from streamactors.stages.files.row_sources import Dialect

NO_TEXT: Final = (dict, list, tuple, set, frozenset, bytes, bytearray, memoryview)
"""Values without a form in CSV."""


class CsvText:
    """Writes rows to `text`. The first line names the fields: those given, or those of the first row; `header=False` leaves it out."""

    def __init__(
        self, operator: str, text: io.StringIO, dialect: Dialect, names: Sequence[str] | None, header: bool
    ) -> None:
        self._operator = operator
        self._names = names
        self._header = header
        self._began = False
        self._columns: int | None = None  # of the rows, where they have no names

        def lines(quoting: Literal[0, 1]) -> Callable[[Sequence[Any]], Any]:
            delimiter, quote = dialect.delimiter, dialect.quote
            return csv.writer(text, delimiter=delimiter, quotechar=quote, lineterminator="\n", quoting=quoting).writerow

        self._line, self._quoted_line = lines(csv.QUOTE_MINIMAL), lines(csv.QUOTE_ALL)
        if names is not None:
            self._begin()

    def _begin(self) -> None:
        """Write the header, where there is one."""
        self._began = True
        if self._header and self._names is not None:
            self._line(self._names)

    def row(self, element: Any) -> None:
        """Write one row. Raises TypeError or ValueError for an element that is not such a row."""
        if isinstance(element, Mapping):
            names: Sequence[str] | None = tuple(element)
        elif is_dataclass(element) and not isinstance(element, type):
            names = tuple(field.name for field in fields(element))
        elif isinstance(element, tuple) and hasattr(element, "_fields"):
            names = element._fields
        elif isinstance(element, (list, tuple)):
            names = None
        else:
            raise TypeError(
                f"{self._operator} expects dicts, dataclasses, named tuples or sequences of values, got {type(element).__name__} "
                f"{shortened(element, 60)}"
            )
        if not self._began:
            self._names = names
            self._begin()
        values = self._values(element, names)
        line = self._line
        for i, value in enumerate(values):
            if type(value) is str:
                if "\r" in value:
                    line = self._quoted_line  # the csv module quotes only the line end that it writes itself
            elif isinstance(value, NO_TEXT):
                name = self._names[i] if self._names is not None else i
                raise TypeError(
                    f"field {name!r} is a {type(value).__name__}, which cannot be written as CSV: {shortened(value, 60)}; convert it to a string, "
                    "or write JSON lines"
                )
        line(values)

    def _values(self, element: Any, names: Sequence[str] | None) -> Sequence[Any]:
        known = self._names
        if names is None or known is None:
            if self._columns is None:
                self._columns = len(element) if known is None else len(known)
            if names is not None or len(element) != self._columns:
                raise ValueError(f"{len(element)} values, expected {self._columns}: {shortened(element, 80)}")
            return element  # type: ignore[no-any-return]
        if names != known and (missing := set(known) - set(names)):
            raise ValueError(f"field {min(missing)!r} is missing: {shortened(element, 80)}")
        if len(names) > len(known):
            raise ValueError(
                f"field {min(map(str, set(names) - set(known)))!r} is not among the file's ({', '.join(map(repr, known))}); give all of them: fields=[…]"
            )
        return (
            [element[name] for name in known]
            if isinstance(element, Mapping)
            else [getattr(element, name) for name in known]
        )
