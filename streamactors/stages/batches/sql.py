"""to_sql and to_sql_table: batches into a database, through Python's DB-API (PEP 249). One batch is one transaction.

Owner of the connection: a thread of the run, which makes it, uses it and closes it: drivers such as sqlite3 refuse other threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import fields, is_dataclass
from queue import SimpleQueue
from typing import Any, Final

from streamactors.actors.outside_calls import OutsideCalls
from streamactors.durations import Duration
from streamactors.engine.logic import logic_of
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.stages.batches.batches import Batches, BatchesLogic
from streamactors.stages.checks import plain_function
from streamactors.stages.restart_settings import RestartSettings

_PLACEHOLDERS: Final = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":{}", "numeric_dollar": "${}"}


class ToSql(Batches):
    """The stage of `Sink.to_sql`."""

    name = "to_sql"

    def __init__(
        self,
        connect: Callable[[], Any],
        statement: str,
        row: Callable[[Any], Any] | None = None,
        max: int = 500,
        within: Duration = "1s",
        retry: RestartSettings | None = None,
    ) -> None:
        if hasattr(connect, "cursor"):
            raise BuildError(
                f"{self.name} expects a function that returns a connection, got a {type(connect).__name__}; each run makes and closes its own, on "
                "its own thread: lambda: sqlite3.connect(path)"
            )
        self.connect = plain_function(self.name, connect)
        if not isinstance(statement, str) or not statement.strip():
            raise BuildError(f"{self.name}: statement must be a string of SQL, got {shortened(statement, 60)}")
        self._statement = statement
        self.row = None if row is None else plain_function(f"{self.name}: row", row)
        self._settings(max, within, retry)

    def statement(self, connection: Any) -> str:
        """Return the statement, in the form that the driver of `connection` expects."""
        return self._statement

    def rows(self, elements: list[Any]) -> list[Any]:
        """Return the parameters of the elements."""
        return elements if self.row is None else [self.row(element) for element in elements]


class ToSqlTable(ToSql):
    """The stage of `Sink.to_sql_table`."""

    name = "to_sql_table"

    def __init__(
        self,
        connect: Callable[[], Any],
        table: str,
        columns: Iterable[str],
        key: str | Iterable[str] = (),
        max: int = 500,
        within: Duration = "1s",
        retry: RestartSettings | None = None,
    ) -> None:
        if isinstance(columns, str):
            raise BuildError(f"to_sql_table: columns must be a list of names, got the string {columns!r}")
        self.table = table
        self.columns = list(columns)
        self.key = [key] if isinstance(key, str) else list(key)
        missing = [name for name in self.key if name not in self.columns]
        if not self.columns or missing:
            raise BuildError(f"to_sql_table: key {missing or self.key} must be among the columns {self.columns}")
        super().__init__(connect, f"INSERT INTO {table}", None, max, within, retry)

    def statement(self, connection: Any) -> str:
        names = [_quoted(name) for name in self.columns]
        marks = _placeholders(connection, len(names))
        text = f"INSERT INTO {'.'.join(map(_quoted, self.table.split('.')))} ({', '.join(names)}) VALUES ({', '.join(marks)})"  # noqa: S608  # names are quoted
        if not self.key:
            return text
        changed = [name for name in names if name not in {_quoted(each) for each in self.key}]
        action = "UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in changed) if changed else "NOTHING"
        return f"{text} ON CONFLICT ({', '.join(map(_quoted, self.key))}) DO {action}"

    def rows(self, elements: list[Any]) -> list[Any]:
        return [self._row_of(element) for element in elements]

    def _row_of(self, element: Any) -> Sequence[Any]:
        columns = self.columns
        named = _named_values(element)
        if named is not None:
            if len(named) != len(columns) or any(name not in named for name in columns):
                lacking = [name for name in columns if name not in named]
                unknown = [name for name in named if name not in columns]
                raise ValueError(
                    f"to_sql_table: {shortened(element, 80)} has "
                    + " and ".join(
                        [f"no value for {lacking}"] * bool(lacking)
                        + [f"{unknown}, which the columns {columns} do not name"] * bool(unknown)
                    )
                )
            return [named[name] for name in columns]
        if not isinstance(element, Sequence) or isinstance(element, str | bytes | bytearray):
            raise TypeError(
                f"to_sql_table expects a mapping, a dataclass, or a sequence of {columns}, got {type(element).__name__} {shortened(element, 80)}"
            )
        if len(element) != len(columns):
            raise ValueError(
                f"to_sql_table: {shortened(element, 80)} has {len(element)} values for the {len(columns)} columns {columns}"
            )
        return element


def _named_values(element: Any) -> Mapping[str, Any] | None:
    """Return the values of an element by name; None for an element without names."""
    if isinstance(element, Mapping):
        return element
    if is_dataclass(element) and not isinstance(element, type):
        return {field.name: getattr(element, field.name) for field in fields(element)}
    if isinstance(element, tuple) and hasattr(element, "_asdict"):
        named: Mapping[str, Any] = element._asdict()
        return named
    return None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _placeholders(connection: Any, n: int) -> list[str]:
    """Return n placeholders in the driver's style, which PEP 249 has in `module.paramstyle`."""
    for cls in type(connection).__mro__:
        module = sys.modules.get(cls.__module__.split(".")[0])
        style = getattr(module, "paramstyle", None)
        if isinstance(style, str):
            break
    else:
        style = None
    mark = _PLACEHOLDERS.get(str(style))
    if mark is None:
        raise TypeError(
            f"to_sql_table: {type(connection).__name__} belongs to no DB-API module with a positional paramstyle (found {style!r}); "
            "use to_sql with a statement of your own"
        )
    return [mark.format(i + 1) for i in range(n)]


class _Thread:
    """Runs calls in their order, on a thread that starts with the first one. The end of the process does not wait for it, and it takes calls
    until then: an executor refuses them while streams still run."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def submit(self, call: Callable[[], object]) -> None:
        """Run `call` after those before it."""
        self._calls.put(call)
        if self._thread.ident is None:
            self._thread.start()

    def end(self) -> None:
        """End the thread after the calls; returns at once."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


class _Writer:
    """The connection of one run and its thread."""

    def __init__(self, stage: ToSql) -> None:
        self._stage = stage
        self._thread = _Thread(f"streamactors-{stage.label}")
        self._connection: Any = None
        self._statement = ""
        self.calls = OutsideCalls(stage.label)

    def write(self, elements: list[Any]) -> Future[None]:
        """Write a batch on the thread; return at once."""
        future: Future[None] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return  # the stream has stopped
            try:
                self._write(elements)
            except BaseException as error:  # noqa: BLE001  # the stage decides
                future.set_exception(error)
            else:
                future.set_result(None)

        # The future is done within the counted call: its callbacks have begun before virtual time may move.
        self._thread.submit(self.calls.counted(call))
        return future

    def _write(self, elements: list[Any]) -> None:
        rows = self._stage.rows(elements)
        if self._connection is None:
            self._connection = self._stage.connect()
            self._statement = self._stage.statement(self._connection)
        connection = self._connection
        try:
            cursor = self._cursor(connection)
            try:
                cursor.executemany(self._statement, rows)
            finally:
                cursor.close()
            connection.commit()
        except BaseException:
            self._connection = None
            for end in (connection.rollback, connection.close):
                with suppress(Exception):  # the connection may be broken; the first error is raised
                    end()
            raise

    @staticmethod
    def _cursor(connection: Any) -> Any:
        try:
            return connection.cursor()
        except Exception as error:
            if "thread" in str(error):  # sqlite3
                error.add_note(
                    "connect() is called on a thread of the run; it must make a connection there, not return one that exists"
                )
            raise

    def close(self) -> None:
        """Close the connection after what is being written, and end the thread; returns at once."""
        self._thread.submit(self._close)
        self._thread.end()
        self.calls.end()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # every batch is committed or has failed; nobody is left to hear of it
                connection.close()


@logic_of(ToSql, ToSqlTable)
class _SqlLogic(BatchesLogic):
    stage: ToSql
    here = True

    def writer(self) -> Callable[[list[Any]], Any]:
        self._writer = _Writer(self.stage)
        self._writer.calls.attach_to(self.interpreter.island.run.system.clock)
        return self._writer.write

    def on_stop(self) -> None:
        self._writer.close()
        super().on_stop()
