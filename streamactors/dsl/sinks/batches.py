"""Constructors of Sink that write batches: the contract for a writer of your own, SQL databases, object files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.constructors import Constructors
from streamactors.dsl.typevars import T
from streamactors.durations import Duration

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Sink
    from streamactors.stages.restart_settings import RestartSettings


class BatchSinks(Constructors):
    """Sinks that write whole batches: to a function, SQL tables, objects in a store."""

    __slots__ = ()

    @classmethod
    def batches(
        cls,
        write: Callable[[list[T]], Awaitable[object]] | Callable[[list[T]], object],
        max: int = 500,
        within: Duration = "1s",
        retry: RestartSettings | None = None,
        *,
        parallelism: int = 1,
    ) -> Sink[T, StreamFuture[int]]:
        """Call `write(list of elements)` with batches of up to `max` elements; a batch is written at the latest `within` (seconds, a
        timedelta, or a string such as "1s") after its first element came.

        `write` is a plain function, which runs on a thread of its own and may block, or a coroutine function. One batch is written at a
        time, in order; `parallelism` batches, when it is given. A batch whose `write` raised is written again after the back-off of
        `retry`, so a part of it may be written twice: let `write` replace what is there (an upsert, a file of the same name).
        Materializes: a future of the number of elements written.
        Backpressures when: the next batch is full and `parallelism` are being written.
        Fails when: `write` raises and `retry` allows no further attempt.
        Supervision: resume and restart drop the batch, after the attempts that `retry` allows.
        Marks: done when `write` has returned for all elements before them.

        Example:
            a -1-2---3|
            a.run_with(Sink.batches(seen.append, max=2, within='30ms'))
        """
        from streamactors.stages.batches.batches import Batches

        return cls._of(Batches(write, max, within, retry, parallelism))

    @classmethod
    def to_sql(
        cls,
        connect: Callable[[], Any],
        statement: str,
        *,
        row: Callable[[T], Any] | None = None,
        max: int = 500,
        within: Duration = "1s",
        retry: RestartSettings | None = None,
    ) -> Sink[T, StreamFuture[int]]:
        """Execute an SQL statement with each element as its parameters: `executemany` for up to `max` elements, at the latest
        `within` (seconds, a timedelta or a string) after the first, then commit.

        `connect()` returns a DB-API connection (sqlite3, psycopg, …). It is called on a thread of the run, which alone uses the connection; after a
        failed batch the connection is closed, and the next attempt makes a new one. `row(element)` makes the parameters, where the
        elements are none. A batch may be written twice after a failure or a restart: a statement that replaces rows makes that harmless, and
        `to_sql_table` writes one.
        Materializes: a future of the number of elements written.
        Backpressures when: the next batch is full and one is being written.
        Fails when: the database does, and `retry` allows no further attempt.
        Supervision: resume and restart drop the batch, after the attempts that `retry` allows.
        Marks: done when the transaction with the elements before them is committed.

        Example:
            a -1-2-3|
            sqlite3.connect(path).execute('create table t (n integer)')
            insert = 'insert into t values (?)'
            a.map(lambda x: (x,)).run_with(Sink.to_sql(lambda: sqlite3.connect(path), insert, max=2, within='30ms'))
        """
        from streamactors.stages.batches.sql import ToSql

        return cls._of(ToSql(connect, statement, row, max, within, retry))

    @classmethod
    def to_sql_table(
        cls,
        connect: Callable[[], Any],
        table: str,
        columns: Iterable[str],
        key: str | Iterable[str] = (),
        *,
        max: int = 500,
        within: Duration = "1s",
        retry: RestartSettings | None = None,
    ) -> Sink[Any, StreamFuture[int]]:
        """Write elements into the rows of a table: `INSERT … ON CONFLICT (key) DO UPDATE`, which SQLite and PostgreSQL know.

        Elements are mappings, dataclasses or named tuples with just the columns as names, or sequences in their order. With `key` (columns with a unique index) a row
        that exists is replaced, so that a batch that is written again changes nothing. Without a `key` rows are inserted. Otherwise as `to_sql`;
        `within` is seconds, a timedelta or a string.
        Materializes: a future of the number of elements written.
        Backpressures when: the next batch is full and one is being written.
        Fails when: the database does and `retry` allows no further attempt; or an element has not just the columns.
        Supervision: resume and restart drop the batch, after the attempts that `retry` allows.
        Marks: done when the transaction with the elements before them is committed.

        Example:
            a -1-2-3|
            sqlite3.connect(path).execute('create table t (n integer primary key)')
            rows = a.map(lambda x: {'n': x})
            rows.run_with(Sink.to_sql_table(lambda: sqlite3.connect(path), 't', ['n'], 'n', max=2, within='30ms'))
        """
        from streamactors.stages.batches.sql import ToSqlTable

        return cls._of(ToSqlTable(connect, table, columns, key, max, within, retry))

    @classmethod
    def to_objects(
        cls,
        url: Callable[[list[T]], str],
        encode: Callable[[list[T]], bytes],
        *,
        max: int = 10_000,
        within: Duration = "1m",
        retry: RestartSettings | None = None,
        storage: dict[str, Any] | None = None,
    ) -> Sink[T, StreamFuture[int]]:
        """Write each batch as one file: `encode(elements)` gives its bytes, `url(elements)` its place, such as "s3://bucket/2026/part-7".
        A batch is written at the latest `within` (seconds, a timedelta or a string) after its first element.

        The file systems are fsspec's (the extra `files`); `storage` goes to the file system. A file that exists is replaced, so a `url`
        made from the elements themselves, such as their first offset, makes a batch that is written again harmless.
        Materializes: a future of the number of elements written.
        Backpressures when: the next batch is full and one is being written.
        Fails when: a function raises or the store does, and `retry` allows no further attempt; the error names the file.
        Supervision: resume and restart drop the batch, after the attempts that `retry` allows.
        Marks: done when the file with the elements before them is closed.

        Example:
            a -1-2-3|
            sink = Sink.to_objects(lambda xs: f'memory://part-{xs[0]}', bytes, max=2, within='30ms')
            a.run_with(sink)
        """
        from streamactors.stages.batches.objects import ToObjects

        return cls._of(ToObjects(url, encode, max, within, retry, storage))
