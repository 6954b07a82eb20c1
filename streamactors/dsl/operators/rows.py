"""Operators between rows and their forms: CSV, lines of JSON, server-sent events, tables of Arrow, pandas and polars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from streamactors.clock import Duration
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out
from streamactors.stages.checks import positive
from streamactors.stages.fold.grouped_within import GroupedWithin
from streamactors.stages.fold.grouping import Grouped
from streamactors.stages.framing.rows import LONGEST_ROW, FormatCsv, FormatJsonLines, ParseCsv, ParseJsonLines
from streamactors.stages.framing.server_sent_events import (
    LONGEST_EVENT,
    FormatServerSentEvents,
    ParseServerSentEvents,
    ServerSentEvent,
)
from streamactors.stages.transform.expanding import MapConcat
from streamactors.stages.transform.frames import rows_of, table_maker
from streamactors.stages.transform.mapping import Map


class RowOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def parse_csv(
        self,
        encoding: str = "utf-8",
        *,
        delimiter: str = ",",
        quote: str = '"',
        header: bool = True,
        fields: Sequence[str] | None = None,
        types: Mapping[str, Callable[[str], Any]] | None = None,
        max_length: int = LONGEST_ROW,
    ) -> Ops[Any, Mat]:
        return self._via(ParseCsv(encoding, delimiter, quote, header, fields, types, max_length))

    def format_csv(
        self,
        fields: Sequence[str] | None = None,
        encoding: str = "utf-8",
        *,
        delimiter: str = ",",
        quote: str = '"',
        header: bool = True,
    ) -> Ops[bytes, Mat]:
        return self._via(FormatCsv(fields, encoding, delimiter, quote, header))

    def parse_json_lines(self, max_length: int = LONGEST_ROW) -> Ops[Any, Mat]:
        return self._via(ParseJsonLines(max_length))

    def format_json_lines(self) -> Ops[bytes, Mat]:
        return self._via(FormatJsonLines())

    def parse_server_sent_events(self, max_length: int = LONGEST_EVENT) -> Ops[ServerSentEvent, Mat]:
        return self._via(ParseServerSentEvents(max_length))

    def format_server_sent_events(self) -> Ops[bytes, Mat]:
        return self._via(FormatServerSentEvents())

    def to_arrow(self, rows: int = 10_000, within: Duration | None = None, schema: Any = None) -> Ops[Any, Mat]:
        """Make a `pyarrow.Table` of each `rows` rows (dicts, dataclasses, named tuples), or of those that came `within` a span of time
        (ms, a timedelta or a text).

        `schema` is a `pyarrow.Schema`; without one each table has the types of its own rows.
        Emits when: `rows` rows have come, the span is over and a row has come, or upstream completes with rows left.
        Backpressures when: downstream does.      Completes when: upstream completes.
        Cancels when: downstream cancels.         Fails when: a row has no names, or does not fit the schema.
        Marks: behind the table that has the rows before them.
        """
        return self._tables("to_arrow", rows, within, schema)

    def to_pandas(self, rows: int = 10_000, within: Duration | None = None, schema: Any = None) -> Ops[Any, Mat]:
        """Make a `pandas.DataFrame` of each `rows` rows (dicts, dataclasses, named tuples), or of those that came `within` a span of time
        (ms, a timedelta or a text).

        `schema` is what `DataFrame.astype` takes; without one each frame has the types of its own rows.
        Emits when: `rows` rows have come, the span is over and a row has come, or upstream completes with rows left.
        Backpressures when: downstream does.      Completes when: upstream completes.
        Cancels when: downstream cancels.         Fails when: a row has no names, or does not fit the schema.
        Marks: behind the frame that has the rows before them.
        """
        return self._tables("to_pandas", rows, within, schema)

    def to_polars(self, rows: int = 10_000, within: Duration | None = None, schema: Any = None) -> Ops[Any, Mat]:
        """Make a `polars.DataFrame` of each `rows` rows (dicts, dataclasses, named tuples), or of those that came `within` a span of time
        (ms, a timedelta or a text).

        `schema` is a schema of polars; without one each frame has the types of its own rows.
        Emits when: `rows` rows have come, the span is over and a row has come, or upstream completes with rows left.
        Backpressures when: downstream does.      Completes when: upstream completes.
        Cancels when: downstream cancels.         Fails when: a row has no names, or does not fit the schema.
        Marks: behind the frame that has the rows before them.
        """
        return self._tables("to_polars", rows, within, schema)

    def _tables(self, operator: str, rows: int, within: Duration | None, schema: Any) -> Ops[Any, Mat]:
        make = table_maker(operator, schema)
        n = positive(operator, "rows", rows)
        grouped = self._via(Grouped(n) if within is None else GroupedWithin(n, within))
        to_table: Map[Any, Any] = Map(make)
        to_table.name = operator
        return grouped._via(to_table)

    def rows(self) -> Ops[dict[str, Any], Mat]:
        """Emit the rows of tables (pyarrow's Table and RecordBatch, DataFrames of pandas and polars) as dicts.

        Emits when: the current table has a row.      Backpressures when: downstream does, or the current table has more rows.
        Completes when: upstream completes and the last row has been emitted.   Cancels when: downstream cancels.
        Fails when: an element is no such table.
        Marks: when the rows of the tables before them have been emitted.
        """
        stage: MapConcat[Any, Any] = MapConcat(rows_of)
        stage.name = "rows"
        return self._via(stage)
