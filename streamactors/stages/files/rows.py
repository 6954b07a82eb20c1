"""parse_csv, parse_json_lines: rows from a stream of bytes. format_csv, format_json_lines: the other direction."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY, EXACT, EXACT_MEMORY
from streamactors.engine.stage import Stage
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError, FramingError
from streamactors.stages.bases.cutting import CuttingLogic
from streamactors.stages.bases.elementwise import ElementwiseLogic
from streamactors.stages.checks import no_coroutine_function, positive
from streamactors.stages.defaults import LONGEST_ROW
from streamactors.stages.files.csv_text import CsvText
from streamactors.stages.files.row_sinks import json_line
from streamactors.stages.files.row_sources import Dialect, csv_hint, field_names
from streamactors.stages.framing.delimiter import DelimiterLogic
from streamactors.stages.framing.text import checked_encoding

try:
    from msgspec.json import decode as _decode
except ImportError:  # the extra is not installed
    _decode = json.loads  # type: ignore[assignment]


class ParseCsv(Stage[bytes, Any]):
    """The stage of `Source.parse_csv`."""

    handling = BLURS_MEMORY

    def __init__(
        self,
        encoding: str = "utf-8",
        delimiter: str = ",",
        quote: str = '"',
        header: bool = True,
        fields: Sequence[str] | None = None,
        types: Mapping[str, Callable[[str], Any]] | None = None,
        max_length: int = LONGEST_ROW,
    ) -> None:
        self.encoding = checked_encoding("parse_csv", encoding)
        self.dialect = Dialect.of("parse_csv", delimiter, quote)
        self.header = bool(header)
        self.fields = field_names("parse_csv", fields)
        if types is not None and (not isinstance(types, Mapping) or not all(map(callable, types.values()))):
            raise BuildError(f"parse_csv: types must map names of fields to functions, got {shortened(types, 60)}")
        for field, convert in (types or {}).items():
            no_coroutine_function(f"parse_csv: types[{field!r}]", convert)
        if types and not header and self.fields is None:
            raise BuildError("parse_csv: types needs names of fields: header=True or fields=[…]")
        self.types = dict(types or {})
        self.max_length = positive("parse_csv", "max_length", max_length)


class _Lines:
    """The lines of whole rows. Unlike a generator it continues after it had none."""

    def __init__(self) -> None:
        self.waiting: deque[str] = deque()

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if not self.waiting:
            raise StopIteration
        return self.waiting.popleft()


@logic_of(ParseCsv)
class _ParseCsvLogic(CuttingLogic):
    """The reader of the csv module is given whole rows only: a row ends with a line up to which the quotes are even in number."""

    stage: ParseCsv

    def __init__(self, stage: ParseCsv) -> None:
        super().__init__(stage)
        encoding = "utf-8-sig" if codecs.lookup(stage.encoding).name == "utf-8" else stage.encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._parts: list[str] = []  # the lines of the unfinished row
        self._line: list[str] = []  # its unfinished line, in pieces
        self._size = 0
        self._open = False  # the unfinished row has an odd number of quotes
        self._lines = _Lines()
        self._reader = csv.reader(
            self._lines, delimiter=stage.dialect.delimiter, quotechar=stage.dialect.quote, strict=True
        )
        self._header_due = stage.header
        self._name(stage.fields)

    def _name(self, names: Sequence[str] | None) -> None:
        self._names = names
        self._columns: int | None = None if names is None else len(names)
        types = self.stage.types
        self._types = [(i, name, types[name]) for i, name in enumerate(names or ()) if name in types]

    def pending(self) -> bool:
        return self._size > 0 or bool(self._decoder.getstate()[0])

    def cut(self, chunk: list[bytes], results: list[Any]) -> None:
        self._take(self._decoder.decode(b"".join(chunk)), results)

    def _take(self, text: str, results: list[Any]) -> None:
        quote, whole = self.stage.dialect.quote, self._lines.waiting
        too_long = False
        for line in io.StringIO(text, newline="\n"):
            self._line.append(line)
            self._size += len(line)
            if quote in line and line.count(quote) % 2:
                self._open = not self._open
            too_long = self._size > self.stage.max_length
            if too_long:
                break
            if line[-1] == "\n":
                self._parts.append("".join(self._line))
                self._line.clear()
                if not self._open:
                    whole += self._parts
                    self._parts.clear()
                    self._size = 0
        self._rows(results)
        if too_long:
            raise FramingError(
                f"parse_csv, line {self._reader.line_num + 1}: a row is longer than max_length={self.stage.max_length} characters; "
                "is a quote missing? Or raise max_length"
            )

    def _rows(self, results: list[Any]) -> None:
        began = self._reader.line_num + 1
        try:
            for row in self._reader:
                if row:
                    if self._header_due:
                        self._header(row, began)
                    else:
                        results.append(self._row(row, began))
                began = self._reader.line_num + 1
        except csv.Error as error:
            raise self._wrong(began, str(error) + csv_hint(error)) from None

    def _header(self, first: list[str], line: int) -> None:
        self._header_due = False
        if self._names is not None:
            if len(self._names) != len(first):
                raise self._wrong(line, f"the header has {len(first)} fields, fields= names {len(self._names)}")
            return
        if twice := {name for name in first if first.count(name) > 1}:
            raise self._wrong(line, f"the header names {min(twice)!r} twice; give other names: fields=[…]")
        if missing := set(self.stage.types) - set(first):
            raise self._wrong(
                line, f"types names the field {min(missing)!r}, the header has {', '.join(map(repr, first[:10]))}"
            )
        self._name(first)

    def _row(self, row: list[Any], line: int) -> Any:
        if self._columns is None:
            self._columns = len(row)
        if len(row) != self._columns:
            raise self._wrong(line, f"{len(row)} fields, expected {self._columns}: {shortened(row, 80)}")
        for i, name, convert in self._types:
            try:
                row[i] = convert(row[i])
            except Exception as error:
                raise self._wrong(line, f"field {name!r}: {type(error).__name__}: {error}") from error
        return row if self._names is None else dict(zip(self._names, row, strict=True))

    def _wrong(self, line: int, what: str) -> FramingError:
        return FramingError(f"parse_csv, line {line}: {what}")

    def finish(self, results: list[Any]) -> None:
        self._take(self._decoder.decode(b"", True), results)
        if self._open:
            raise self._wrong(self._reader.line_num + 1, "a quote is open and the stream ends")
        self._lines.waiting += [*self._parts, "".join(self._line)] if self._size else ()
        self._rows(results)


class ParseJsonLines(Stage[bytes, Any]):
    """The stage of `Source.parse_json_lines`."""

    handling = BLURS_MEMORY
    delimiter = b"\n"
    allow_truncation = True

    def __init__(self, max_length: int = LONGEST_ROW) -> None:
        self.max_length = positive("parse_json_lines", "max_length", max_length)


@logic_of(ParseJsonLines)
class _ParseJsonLogic(DelimiterLogic):
    _number = 0  # of the last line that was decoded

    def take(self, frames: list[bytes], results: list[Any]) -> None:
        longest = self.stage.max_length
        decode: Callable[[bytes], Any] = _decode
        for line in frames:
            if len(line) > longest:
                raise self.too_long()
            self._number += 1
            if not line or line.isspace():
                continue
            try:
                results.append(decode(line))
            except Exception:  # noqa: BLE001  # NaN, numbers beyond a double and lone surrogates are known to the standard library only
                results.append(self._decode_otherwise(line))

    def _decode_otherwise(self, line: bytes) -> Any:
        try:
            return json.loads(line)
        except RecursionError:
            why = "nested too deeply"
        except json.JSONDecodeError as error:
            why = f"not JSON: {error.msg}, at column {error.colno}: {shortened(line, 60)}"
        except UnicodeDecodeError as error:
            why = f"no UTF-8 text: {error.reason}"
        raise FramingError(f"parse_json_lines, line {self._number:,}: {why}") from None

    def too_long(self) -> FramingError:
        return FramingError(
            f"parse_json_lines, line {self._number + 1:,}: longer than max_length={self.stage.max_length} bytes; raise max_length"
        )


class FormatCsv(Stage[Any, bytes]):
    """The stage of `Source.format_csv`."""

    handling = EXACT_MEMORY

    def __init__(
        self,
        fields: Sequence[str] | None = None,
        encoding: str = "utf-8",
        delimiter: str = ",",
        quote: str = '"',
        header: bool = True,
    ) -> None:
        self.fields = field_names("format_csv", fields)
        self.encoding = checked_encoding("format_csv", encoding)
        self.dialect = Dialect.of("format_csv", delimiter, quote)
        self.header = bool(header)
        self.fn = CsvText.row


@logic_of(FormatCsv)
class _FormatCsvLogic(ElementwiseLogic):
    def __init__(self, stage: FormatCsv) -> None:
        super().__init__(stage)
        self._text = io.StringIO()
        self._csv = CsvText(stage.label, self._text, stage.dialect, stage.fields, stage.header)
        self._encode = codecs.getincrementalencoder(stage.encoding)().encode

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        text, row, encode = self._text, self._csv.row, self._encode
        for element in feed:
            at = text.tell()
            try:
                row(element)
            except Exception:
                text.seek(at)
                text.truncate()
                raise
            out.append(encode(text.getvalue()))
            text.seek(0)
            text.truncate()
            if stop:
                return


class FormatJsonLines(Stage[Any, bytes]):
    """The stage of `Source.format_json_lines`."""

    handling = EXACT

    def __init__(self) -> None:
        self.fn = json_line


@logic_of(FormatJsonLines)
class _FormatJsonLogic(ElementwiseLogic):
    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        for element in feed:
            out.append(json_line(element).encode())
            if stop:
                return
