"""The end of the process waits for what is being closed, for a limited time, and cuts off no call into native code."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from streamactors.actors.native_calls import NativeCalls

pytest.importorskip("rocksdict")


class Resource:
    """Something that is open."""


def test_what_is_open_is_waited_for_until_it_is_closed() -> None:
    calls, resource, found = NativeCalls(), Resource(), []
    calls.opened(resource, "a database")
    waiting = threading.Thread(target=lambda: found.append(calls.wait_until_closed(60)))
    waiting.start()
    assert calls.wait_until_closed(0) == ["a database"]
    calls.closed(resource)
    waiting.join(60)
    assert found == [[]]


def test_what_nobody_refers_to_is_not_waited_for() -> None:
    calls = NativeCalls()
    calls.opened(Resource(), "a database")
    assert calls.wait_until_closed(0) == []


def test_the_end_waits_for_a_running_call_and_lets_none_begin() -> None:
    calls, begun, go_on, entered = NativeCalls(), threading.Event(), threading.Event(), []

    def first() -> None:
        with calls.call():
            begun.set()
            go_on.wait(60)

    running = threading.Thread(target=first)
    running.start()
    assert begun.wait(60)
    assert not calls.refuse(0)

    def second() -> None:
        with calls.call():
            entered.append("second")

    threading.Thread(target=second, daemon=True).start()
    go_on.set()
    running.join(60)
    assert calls.refuse(60)
    assert not entered


def test_the_thread_that_ends_the_process_may_call_after_it_has_refused_others() -> None:
    # A function of atexit that was registered before this package closed a database, waited forever, and the process did not end.
    calls, closed = NativeCalls(), threading.Event()

    def end() -> None:
        assert calls.refuse(0)
        with calls.call():
            closed.set()

    threading.Thread(target=end, daemon=True).start()
    assert closed.wait(10)


def test_a_call_that_raises_has_returned() -> None:
    calls = NativeCalls()
    with pytest.raises(KeyError), calls.call():
        raise KeyError
    assert calls.refuse(0)


WRITING = """
import sys, threading
from pathlib import Path
from streamactors.windows.state.disk.rocks import Memory, Rocks
import streamactors.actors.system
rocks, begun = Rocks(Path(sys.argv[1]), Memory(16 << 20)), threading.Event()
def write():
    number = 0
    while True:
        number += 1
        rocks.write({number.to_bytes(8, "big"): bytes(1_000)})
        rocks.flush()
        begun.set()
for _ in range(3):
    threading.Thread(target=write, daemon=True).start()
begun.wait(60)
sys.exit(7)
"""


def test_a_process_that_ends_while_a_thread_writes_to_a_database_has_its_own_exit_code(tmp_path: Path) -> None:
    # it was aborted (SIGABRT) in four of five runs: the thread was inside RocksDB when the interpreter ended
    codes = [
        subprocess.run([sys.executable, "-c", WRITING, str(tmp_path / str(n))], timeout=60, check=False).returncode
        for n in range(3)
    ]
    assert codes == [7, 7, 7]


CLOSING = """
import sys, threading, time
from pathlib import Path
from streamactors.windows import State
from streamactors.actors import threads
from streamactors.windows.state.disk.folder import StateFolder
import streamactors.actors.system
folder = StateFolder(State.on_disk(sys.argv[1]), "app")
closing = folder.close
def close():
    WAIT
    print("closing", flush=True)
    closing()
threading.Thread(target=close, daemon=True).start()
"""
UNTIL_IT_ENDS = "while not threads.process_is_ending(): time.sleep(0.001)"


def test_a_process_ends_when_its_state_folder_is_closed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLOSING.replace("WAIT", UNTIL_IT_ENDS), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "closing\n")


@pytest.mark.expects_log("not closed")
def test_a_process_waits_for_an_open_state_folder_for_a_limited_time_only(tmp_path: Path) -> None:
    never = CLOSING.replace("WAIT", "threading.Event().wait()").replace("import streamactors.actors.system", SHORT)
    done = subprocess.run(
        [sys.executable, "-c", never, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert f"not closed 0.1 s after the end of the process had begun: state folder {tmp_path}/app" in done.stderr


SHORT = """
import streamactors.actors.system
streamactors.actors.system.CLOSING_S = 0.1
"""
STREAM = """
import sys
from streamactors import ActorSystem, Sink, Source
system = ActorSystem("mine")
system.on_shutdown(lambda: print("shut down", flush=True))
Source.tick("1h", "1h", 1).to(Sink.ignore()).run(system)
"""


@pytest.mark.expects_log("still running when the process ended")
def test_the_end_of_the_process_ends_the_streams_of_every_system() -> None:
    done = subprocess.run([sys.executable, "-c", STREAM], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "shut down\n")
