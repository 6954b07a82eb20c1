"""Constructors of Sink that write batches: the contract for a writer of your own, SQL databases, object files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from streamactors.actors.futures import StreamFuture
from streamactors.clock import Duration
from streamactors.dsl.constructors import Constructors
from streamactors.dsl.typevars import T
from streamactors.stages.batches.batches import Batches
from streamactors.stages.batches.objects import ToObjects
from streamactors.stages.batches.sql import ToSql, ToSqlTable
from streamactors.stages.control.restart_settings import RestartSettings

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Sink


class BatchSinks(Constructors):
    """See the module."""

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
        return cls._of(ToObjects(url, encode, max, within, retry, storage))
