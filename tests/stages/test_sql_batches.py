"""Sink.to_sql on SQLite and PostgreSQL: rows are committed with their batch, a failed batch is written again, no row is lost."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from streamactors import ActorSystem, BuildError, Keep, RestartSettings, Sink, Source, VirtualClock
from streamactors.stages.batches.sql import _Writer
from tests.postgres_server import postgres as postgres

QUICK = RestartSettings("1ms", "2ms", max_restarts=3)


@pytest.fixture(scope="module")
def virtual():
    with ActorSystem("batches", clock=VirtualClock()) as system:
        yield system


# ── SQL ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path) -> Any:
    """A function that connects to an empty table `"prices"` (city text primary key, price integer)."""
    if request.param == "sqlite":

        def connect() -> Any:
            return sqlite3.connect(tmp_path / "db")
    else:
        where = request.getfixturevalue("postgres")

        def connect() -> Any:
            import psycopg

            return psycopg.connect(where)

    connection = connect()
    cursor = connection.cursor()
    cursor.execute("DROP TABLE IF EXISTS prices")
    cursor.execute("CREATE TABLE prices (city text PRIMARY KEY, price integer NOT NULL)")
    connection.commit()
    connection.close()
    connect.marks = "?" if request.param == "sqlite" else "%s"  # type: ignore[attr-defined]
    return connect


def rows(connect: Any) -> list[tuple[str, int]]:
    connection = connect()
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT city, price FROM prices ORDER BY city")
        return [tuple(row) for row in cursor.fetchall()]
    finally:
        connection.close()


@dataclass
class Price:
    city: str
    price: int


class Offer(NamedTuple):
    price: int
    city: str


def test_rows_are_inserted_and_replaced_by_their_key(database):
    sink = Sink.to_sql_table(database, "prices", ["city", "price"], "city", max=2)
    elements = [{"price": 1, "city": "Oslo"}, ("Bergen", 2), Price("Oslo", 3), Offer(4, "Moss")]
    for _ in range(2):  # a second time changes nothing
        assert Source.from_iterable(elements).run_with(sink).result(20) == 4
        assert rows(database) == [("Bergen", 2), ("Moss", 4), ("Oslo", 3)]


def test_a_statement_of_ones_own_gets_its_parameters(database):
    mark = database.marks
    sink = Sink.to_sql(database, f"INSERT INTO prices VALUES ({mark}, {mark})", row=lambda n: (f"{n:03}", n), max=100)
    assert Source.range(0, 250).run_with(sink).result(20) == 250
    assert rows(database) == [(f"{n:03}", n) for n in range(250)]


@pytest.mark.expects_log("failed (attempt")
def test_a_batch_that_fails_is_rolled_back_and_written_again_on_a_new_connection(database):
    """The second row of the first attempt violates NOT NULL; the first must not stay alone."""
    made: list[int] = []
    failing = [True]

    def connect() -> Any:
        made.append(len(rows(database)))  # nothing of the failed batch is in the table
        return database()

    def row(element: tuple[str, int]) -> tuple[str, int | None]:
        if element[0] == "Bergen" and failing:
            failing.pop()
            return (element[0], None)
        return element

    mark = database.marks
    sink = Sink.to_sql(connect, f"INSERT INTO prices VALUES ({mark}, {mark})", row=row, retry=QUICK)
    assert Source.from_iterable([("Oslo", 1), ("Bergen", 2)]).run_with(sink).result(20) == 2
    assert made == [0, 0]
    assert rows(database) == [("Bergen", 2), ("Oslo", 1)]


def test_every_committed_row_is_done_and_no_other(database):
    seen: list[tuple[int, int]] = []
    source = Source.range(0, 100).with_replay(
        marks_at=range(0, 100, 9), on_done=lambda at: seen.append((at, len(rows(database))))
    )
    sink = Sink.to_sql_table(database, "prices", ["city", "price"], ["city"], max=16)
    assert source.map(lambda n: (f"{n}", n)).run_with(sink).result(20) == 100
    assert seen[-1] == (100, 100)
    assert all(written >= at for at, written in seen)


@pytest.mark.expects_log("failed (attempt")
def test_a_server_that_dies_and_comes_back_loses_no_row(postgres):
    """The connection is cut from outside in the middle; the batch that was being written is written again."""
    import psycopg

    def connect() -> Any:
        return psycopg.connect(postgres)

    with connect() as admin:
        admin.execute("DROP TABLE IF EXISTS prices")
        admin.execute("CREATE TABLE prices (city text PRIMARY KEY, price integer NOT NULL)")
    cut = [False]

    def passing(n: int) -> tuple[str, int]:
        if n == 500 and not cut[0]:
            cut[0] = True
            with connect() as admin:
                admin.autocommit = True
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
                )
        return (f"{n:04}", n)

    sink = Sink.to_sql_table(connect, "prices", ["city", "price"], "city", max=50, retry=QUICK)
    assert Source.range(0, 1_000).map(passing).max_chunk(50).run_with(sink).result(30) == 1_000
    assert rows(connect) == [(f"{n:04}", n) for n in range(1_000)]
    assert cut == [True]


def test_virtual_time_waits_for_a_database_that_writes(virtual):
    """The database writes on a thread of its own, by real time; the clock went past it."""
    begun, gate = threading.Event(), threading.Event()

    class Slow:
        def __getattr__(self, name):
            return lambda *_: self

        def executemany(self, *_):
            begun.set()
            assert gate.wait(10)

    sink = Sink.to_sql(Slow, "insert", max=10, within="5s")
    queue, done = Source.queue(10).to_mat(sink, Keep.both).run(virtual)
    virtual.clock.settle()
    queue.offer(1)
    began_ms = virtual.clock.now_ms()
    mover = threading.Thread(target=virtual.clock.advance, args=("1h",))
    mover.start()
    assert begun.wait(10)
    mover.join(0.1)
    assert virtual.clock.now_ms() == began_ms + 5_000
    gate.set()
    mover.join(10)
    assert virtual.clock.now_ms() == began_ms + 3_600_000
    queue.complete()
    assert done.result(10) == 1


def test_a_row_without_a_column_and_a_connection_of_no_module_are_named(tmp_path):
    sink = Sink.to_sql_table(lambda: sqlite3.connect(tmp_path / "db"), "prices", ["city", "price"])
    with pytest.raises(ValueError, match=r"\{'city': 'Oslo'\} has no value for \['price'\]"):
        Source.single({"city": "Oslo"}).run_with(sink).result(10)
    with pytest.raises(TypeError, match="object belongs to no DB-API module with a positional paramstyle"):
        Source.single((1, 2)).run_with(Sink.to_sql_table(object, "prices", ["city", "price"])).result(10)
    with pytest.raises(sqlite3.OperationalError, match="no such table: prices"):
        Source.single((1, 2)).run_with(
            Sink.to_sql_table(lambda: sqlite3.connect(tmp_path / "db"), "prices", ["a", "b"])
        ).result(10)


@pytest.mark.parametrize(
    ("element", "message"),
    [
        ({"city": "Oslo", "price": 1, "more": 0}, r"has \['more'\], which the columns \['city', 'price'\] do not name"),
        ({"town": "Oslo", "price": 1}, r"has no value for \['city'\] and \['town'\], which the columns"),
        ((1, "Oslo", 2), "has 3 values for the 2 columns"),
        (("Oslo",), r"\('Oslo',\) has 1 values for the 2 columns \['city', 'price'\]"),
        ("ab", r"expects a mapping, a dataclass, or a sequence of \['city', 'price'\], got str 'ab'"),
        (5, "got int 5"),
    ],
)
def test_a_row_that_does_not_fit_the_columns_is_named_and_nothing_is_written(database, element, message):
    sink = Sink.to_sql_table(database, "prices", ["city", "price"])
    with pytest.raises((TypeError, ValueError), match=message):
        Source.from_iterable([("Bergen", 2), element]).run_with(sink).result(20)
    assert rows(database) == []


@pytest.mark.parametrize("make", [lambda it: Sink.to_sql(it, "SELECT 1"), lambda it: Sink.to_sql_table(it, "t", ["a"])])
def test_a_connection_in_place_of_a_function_is_refused(make):
    connection = sqlite3.connect(":memory:")
    with pytest.raises(BuildError, match="expects a function that returns a connection, got a Connection"):
        make(connection)
    with pytest.raises(sqlite3.ProgrammingError) as failed:
        Source.single(("x",)).run_with(make(lambda: connection)).result(20)
    assert any(note.startswith("connect() is called on a thread of the run") for note in failed.value.__notes__)
    connection.close()


def test_the_end_of_a_stream_does_not_wait_for_what_is_being_written():
    begun, gate = threading.Event(), threading.Event()

    class Slow:
        def __getattr__(self, name):
            return lambda *_: self

        def executemany(self, *_):
            begun.set()
            assert gate.wait(10)

    stage = SimpleNamespace(label="to_sql", connect=Slow, rows=list, statement=lambda connection: "insert")
    writer = _Writer(stage)
    written = writer.write([1])
    assert begun.wait(10)
    writer.close()
    assert not written.done(), "close has waited for the write"
    gate.set()
    assert written.result(10) is None
