"""What happens to streams that still run when the process ends: a warning, a wait, or exit code 1."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest

from streamactors import ActorSystem
from streamactors.errors import ActorError

pytestmark = pytest.mark.expects_log("still running when the process ended")


BOUNDED = """
import threading
from streamactors import ActorSystem, Sink, Source
system = ActorSystem({arguments})
Source.range(3).throttle(1, "400ms", burst=1).to(Sink.foreach(lambda x: print(x, flush=True))).run(system)
"""
ENDLESS = """
from streamactors import ActorSystem, Sink, Source
Source.tick("1h", "1h", 1).to(Sink.ignore()).run(ActorSystem({arguments}))
"""
CONTINUED = """
from streamactors import ActorSystem, Source
from streamactors.dsl.sink import Sink
from streamactors.engine.blueprint.modules import StageModule
from streamactors.stages.sinks.values import Ignore
class Kept(Ignore):
    continues = "the next run continues from the checkpoint ck; end a query with query.stop()"
Source.tick("1h", "1h", 1).to(Sink(StageModule(Kept()))).run(ActorSystem({arguments}))
"""
COROUTINE = """
import asyncio
from streamactors import Sink, Source
begun = __import__("threading").Event()
async def forever(_):
    begun.set()
    await asyncio.sleep(1_000)
async def waiting():
    yield await forever(1)
result = Source.{arguments}.run_with(Sink.to_list())
begun.wait(30)
"""
DATABASE = """
import sqlite3, sys, threading
from streamactors import ActorSystem, Sink, Source
rows, written = {rows}, threading.Event()
class Told(sqlite3.Connection):
    def commit(self):
        super().commit()
        written.set()
def connect():
    return sqlite3.connect(sys.argv[1], factory=Told)
connection = connect()
connection.execute("create table t (a int)")
Source.range(rows).throttle(1_000, "1s").map(lambda a: (a,)).run_with(
    Sink.to_sql_table(connect, "t", ["a"], max=20, within="10ms"), ActorSystem({arguments})
)
written.wait(30)
"""
FINISHED = """
from streamactors import Sink, Source
print(Source.range(10_000).async_boundary().run_with(Sink.count()).result(10))
"""


def script(text, arguments="", *argv, **named):
    done = subprocess.run(
        [sys.executable, "-c", text.format(arguments=arguments, **named), *argv],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.split(), done.stderr


def test_a_stream_that_a_checkpoint_continues_loses_nothing_and_says_so():
    """A script with a Spark query that was ended by Ctrl-C said that elements were lost. The query repeats them."""
    code, _, said = script(CONTINUED)
    assert code == 0
    assert "a stream was still running when the process ended; the next run continues from the checkpoint ck" in said
    assert "are lost" not in said


def test_a_script_that_ends_while_a_stream_runs_is_warned():
    code, _, said = script(BOUNDED)
    assert code == 0
    assert "1 stream was still running" in said
    assert "wait with .result()" in said


@pytest.mark.parametrize("source", ["range(3).map_async(2, forever)", "from_async_iterable(waiting())"])
def test_a_coroutine_that_the_end_cancels_is_no_failure_of_its_stream(source):
    # behind the warning of a running stream came a second one of the same stream: a stream has failed … CancelledError
    code, _, said = script(COROUTINE, source)
    assert code == 0
    assert "1 stream was still running" in said
    assert said.count("\n") == 1


def test_at_exit_wait_lets_a_stream_finish():
    assert script(BOUNDED, "at_exit='wait'") == (0, ["0", "1", "2"], "")


def test_at_exit_fail_ends_the_process_with_exit_code_1():
    code, _, said = script(BOUNDED, "at_exit='fail'")
    assert code == 1
    assert "1 stream was still running" in said


def test_at_exit_wait_does_not_wait_for_an_endless_stream():
    code, _, said = script(ENDLESS, "at_exit='wait'")
    assert code == 0
    assert "1 stream was still running" in said


def test_a_script_that_has_its_result_hears_nothing():
    assert script(FINISHED) == (0, ["10000"], "")


def test_another_at_exit_is_refused():
    with pytest.raises(ActorError, match="at_exit must be 'warn', 'wait' or 'fail', not 'hang'"):
        ActorSystem(at_exit="hang")


def test_a_database_sink_at_the_end_of_the_process_is_warned_of_like_every_stream(tmp_path):
    # "stage to_sql_table raised in on_stop", with two tracebacks: an executor refuses calls when the interpreter ends
    code, _, said = script(DATABASE, "", str(tmp_path / "db"), rows=1_000_000)
    assert code == 0
    assert said.startswith("1 stream was still running")
    assert said.count("\n") == 1


def test_a_system_that_waits_lets_a_database_sink_write_the_rest(tmp_path):
    code, _, said = script(DATABASE, "at_exit='wait'", str(tmp_path / "db"), rows=300)
    assert (code, said) == (0, "")
    assert sqlite3.connect(tmp_path / "db").execute("select count(*) from t").fetchone() == (300,)
