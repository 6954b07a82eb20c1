"""Operators between rows and their forms: CSV, lines of JSON, server-sent events, tables of Arrow, pandas and polars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out
from streamactors.durations import Duration
from streamactors.stages.checks import positive
from streamactors.stages.defaults import LONGEST_EVENT, LONGEST_ROW

if TYPE_CHECKING:
    from streamactors.stages.framing.server_sent_events import ServerSentEvent
    from streamactors.stages.transform.expanding import MapConcat
    from streamactors.stages.transform.mapping import Map


class RowOps(Ops[Out, Mat]):
    """Operators between bytes and rows: CSV, JSON lines, server-sent events, Arrow, pandas, Polars."""

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
        r"""Make rows of a stream of bytes in CSV: dicts by the names in the first line, or by `fields` where there is no such line
        (`header=False`); lists without either. Values are strings, except in the fields for which `types` has a function.

        A quoted value may hold delimiters, doubled quotes and line ends. Empty lines are skipped. A row of more than `max_length` characters fails
        the stream, and so does a field of more than `csv.field_size_limit()`, which is 131,072 characters unless the program sets another limit.
        Emits when: a row has ended; one element may end several.   Backpressures when: downstream does.
        Completes when: upstream completes and all rows have been emitted.   Cancels when: downstream cancels.
        Fails when: the bytes cannot be decoded with `encoding`, or a row is not CSV or lacks fields (FramingError, with the line).
        Marks: after the row that ends the bytes before them.

        Example:
            a -1---2|
            a.map(lambda x: b'%d,x\n' % x).parse_csv(header=False, fields=['n', 'm'])
        """
        from streamactors.stages.files.rows import ParseCsv

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
        """Write each row as a line of CSV: dicts, dataclasses, named tuples, or sequences of values. None becomes an empty value.

        The first line, which comes with the first row, names the fields: `fields`, or those of the first row; `header=False` leaves it
        out. Each row must have all of the fields and no other.
        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Fails when: an element is not such a row.

        Example:
            a -1---2|
            a.map(lambda x: {'n': x, 'm': 'x'}).format_csv()
        """
        from streamactors.stages.files.rows import FormatCsv

        return self._via(FormatCsv(fields, encoding, delimiter, quote, header))

    def parse_json_lines(self, max_length: int = LONGEST_ROW) -> Ops[Any, Mat]:
        r"""Make values of a stream of bytes with one JSON value a line. Empty lines are skipped.

        msgspec decodes where it is installed, else the standard library; the values are the same. A line of more than `max_length` bytes
        fails the stream.
        Emits when: a line has ended; one element may end several.   Backpressures when: downstream does.
        Completes when: upstream completes and all values have been emitted.   Cancels when: downstream cancels.
        Fails when: a line is not JSON (FramingError, with its number).
        Marks: after the value of the line that ends the bytes before them.

        Example:
            a -1---2|
            a.map(lambda x: b'[%d]\n' % x).parse_json_lines()
        """
        from streamactors.stages.files.rows import ParseJsonLines

        return self._via(ParseJsonLines(max_length))

    def format_json_lines(self) -> Ops[bytes, Mat]:
        """Write each element as a line of JSON, in UTF-8. Dataclasses and named tuples are objects; NaN cannot be written as JSON and is refused.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Fails when: an element cannot be written as JSON.

        Example:
            a -1---2|
            a.map(lambda x: {'n': x}).format_json_lines()
        """
        from streamactors.stages.files.rows import FormatJsonLines

        return self._via(FormatJsonLines())

    def parse_server_sent_events(self, max_length: int = LONGEST_EVENT) -> Ops[ServerSentEvent, Mat]:
        r"""Make events of a stream of bytes in the form `text/event-stream`. Comments are skipped; an unfinished event at the end is dropped,
        as the standard says.

        Emits when: the empty line after an event has come.   Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Fails when: an event is longer than `max_length` characters (FramingError).
        Marks: after the event that ends the bytes before them.

        Example:
            a -1---2|
            a.map(lambda x: b'data: %d\n\n' % x).parse_server_sent_events().map(lambda event: event.data)
        """
        from streamactors.stages.framing.server_sent_events import ParseServerSentEvents

        return self._via(ParseServerSentEvents(max_length))

    def format_server_sent_events(self) -> Ops[bytes, Mat]:
        """Write each element in the form `text/event-stream`: a ServerSentEvent, or a string, which is the data of a message.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Fails when: an element is neither, or its event or id holds a line end.

        Example:
            a -x---y|
            a.format_server_sent_events()
        """
        from streamactors.stages.framing.server_sent_events import FormatServerSentEvents

        return self._via(FormatServerSentEvents())

    def to_arrow(self, rows: int = 10_000, within: Duration | None = None, schema: Any = None) -> Ops[Any, Mat]:
        """Make a `pyarrow.Table` of each `rows` rows (dicts, dataclasses, named tuples), or of those that came `within` a span of time
        (seconds, a timedelta or a string).

        `schema` is a `pyarrow.Schema`; without one each table has the types of its own rows.
        Emits when: `rows` rows have come, the span is over and a row has come, or upstream completes with rows left.
        Backpressures when: downstream does.      Completes when: upstream completes.
        Cancels when: downstream cancels.         Fails when: a row has no names, or does not fit the schema.
        Marks: after the table that has the rows before them.

        Example:
            a -1---2-3|
            a.map(lambda x: {'n': x}).to_arrow(2).map(lambda table: table['n'].to_pylist())
        """
        return self._tables("to_arrow", rows, within, schema)

    def to_pandas(self, rows: int = 10_000, within: Duration | None = None, schema: Any = None) -> Ops[Any, Mat]:
        """Make a `pandas.DataFrame` of each `rows` rows (dicts, dataclasses, named tuples), or of those that came `within` a span of time
        (seconds, a timedelta or a string).

        `schema` is what `DataFrame.astype` takes; without one each frame has the types of its own rows.
        Emits when: `rows` rows have come, the span is over and a row has come, or upstream completes with rows left.
        Backpressures when: downstream does.      Completes when: upstream completes.
        Cancels when: downstream cancels.         Fails when: a row has no names, or does not fit the schema.
        Marks: after the frame that has the rows before them.

        Example:
            a -1---2-3|
            a.map(lambda x: {'n': x}).to_pandas(2).map(lambda frame: frame['n'].tolist())
        """
        return self._tables("to_pandas", rows, within, schema)

    def to_polars(self, rows: int = 10_000, within: Duration | None = None, schema: Any = None) -> Ops[Any, Mat]:
        """Make a `polars.DataFrame` of each `rows` rows (dicts, dataclasses, named tuples), or of those that came `within` a span of time
        (seconds, a timedelta or a string).

        `schema` is a schema of polars; without one each frame has the types of its own rows.
        Emits when: `rows` rows have come, the span is over and a row has come, or upstream completes with rows left.
        Backpressures when: downstream does.      Completes when: upstream completes.
        Cancels when: downstream cancels.         Fails when: a row has no names, or does not fit the schema.
        Marks: after the frame that has the rows before them.

        Example:
            a -1---2-3|
            a.map(lambda x: {'n': x}).to_polars(2).map(lambda frame: frame['n'].to_list())
        """
        return self._tables("to_polars", rows, within, schema)

    def _tables(self, operator: str, rows: int, within: Duration | None, schema: Any) -> Ops[Any, Mat]:
        from streamactors.stages.fold.grouped_within import GroupedWithin
        from streamactors.stages.fold.grouping import Grouped
        from streamactors.stages.transform.frames import table_maker
        from streamactors.stages.transform.mapping import Map

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
        Fails when: an element is not such a table.
        Marks: when the rows of the tables before them have been emitted.

        Example:
            a -1---2-3|
            a.map(lambda x: {'n': x}).to_arrow(2).rows()
        """
        from streamactors.stages.transform.expanding import MapConcat
        from streamactors.stages.transform.frames import rows_of

        stage: MapConcat[Any, Any] = MapConcat(rows_of)
        stage.name = "rows"
        return self._via(stage)
