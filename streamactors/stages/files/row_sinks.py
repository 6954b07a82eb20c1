"""to_csv and to_json_lines: files of rows. Errors name the file and the number of the element; what came before it is written."""

from __future__ import annotations

import io
import json
import os
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from typing import Any, Final

from streamactors.engine.logic import logic_of
from streamactors.engine.user_code import shortened
from streamactors.stages.files.csv_text import CsvText
from streamactors.stages.files.io_result import Path
from streamactors.stages.files.row_sources import Dialect, field_names
from streamactors.stages.files.writing import FileLogic, ToFile, line_end_of, text_encoder, write_all
from streamactors.stages.framing.text import checked_encoding


class ToCsv(ToFile):
    """The stage of `Sink.to_csv`."""

    def __init__(
        self,
        path: Path,
        fields: Sequence[str] | None = None,
        encoding: str = "utf-8",
        delimiter: str = ",",
        quote: str = '"',
        header: bool = True,
        append: bool = False,
        sync: bool = False,
    ) -> None:
        super().__init__(path, append, sync)
        self.fields = field_names(self.label, fields)
        self.encoding = checked_encoding(self.label, encoding)
        self.dialect = Dialect.of(self.label, delimiter, quote)
        self.header = bool(header)

    def line_end(self) -> bytes:
        return line_end_of(self.encoding)


class ToJsonLines(ToFile):
    """The stage of `Sink.to_json_lines`."""

    def __init__(self, path: Path, append: bool = False, sync: bool = False) -> None:
        super().__init__(path, append, sync)

    def line_end(self) -> bytes:
        return b"\n"


class _RowsLogic(FileLogic):
    """Writes strings with one encoder per run, so that a byte order mark is written once."""

    _seen = 0
    encoding = "utf-8"

    def open(self) -> None:
        super().open()
        self.text = io.StringIO()  # of one chunk
        self._encode_text = text_encoder(self.encoding, at_start=self.at_start)

    def write(self, chunk: list[Any]) -> int:
        text = self.text
        failure: Exception | None = None
        for element in chunk:
            self._seen += 1
            before = text.tell()
            try:
                self.row(element)
            except (TypeError, ValueError) as error:
                failure = type(error)(f"{os.fspath(self.stage.path)}, element {self._seen}: {error}")
                text.seek(before)
                text.truncate()
                break
        written = self.write_out()
        if failure is not None:
            self.count += written
            raise failure
        return written

    def write_out(self) -> int:
        """Write what is in `text` to the file; return the number of bytes."""
        data = self._encode_text(self.text.getvalue())
        self.text.seek(0)
        self.text.truncate()
        write_all(self._file, data)
        self._dirty = True
        return len(data)

    @abstractmethod
    def row(self, element: Any) -> None:
        """Write one element to `text`. Raises TypeError or ValueError for an element that has no such form."""


@logic_of(ToCsv)
class _CsvLogic(_RowsLogic):
    stage: ToCsv

    def __init__(self, stage: ToCsv) -> None:
        super().__init__(stage)
        self.encoding = stage.encoding

    def open(self) -> None:
        super().open()
        stage = self.stage
        csv_text = CsvText(stage.label, self.text, stage.dialect, stage.fields, stage.header and self.at_start)
        self.row = csv_text.row  # type: ignore[method-assign]
        self.head_bytes = self.write_out()
        self.count += self.head_bytes

    def row(self, element: Any) -> None:
        raise NotImplementedError  # pragma: no cover  # set by `open`


@logic_of(ToJsonLines)
class _JsonLinesLogic(_RowsLogic):
    stage: ToJsonLines

    def row(self, element: Any) -> None:
        self.text.write(json_line(element))


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(
        f"a {type(value).__name__} cannot be written as JSON: {shortened(value, 60)}; convert it to a string or a number"
    )


def json_line(element: Any) -> str:
    """Return the element as one line of JSON. Raises TypeError or ValueError for an element that cannot be written as JSON."""
    if isinstance(element, tuple) and hasattr(element, "_asdict"):
        element = element._asdict()
    return _JSON.encode(element) + "\n"


_JSON: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(", ", ": "), default=_plain)
