"""Child processes as flows, and the standard streams of this process, over real pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from queue import SimpleQueue
from typing import Any

import pytest

from streamactors import (
    AbruptTermination,
    ActorSystem,
    BuildError,
    Flow,
    Keep,
    KillSwitches,
    ProcessFailed,
    Sink,
    Source,
)
from streamactors.stages.bases.cutting import NotBytes


def run(source: Any) -> Any:
    return source.run_with(Sink.to_list()).result(20)


def whole(source: Any) -> bytes:
    return b"".join(run(source))


# ── child processes ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_process_is_a_flow():
    numbers = [b"%d\n" % (n * 7919 % 10_007) for n in range(10_007)]
    assert run(Source.from_iterable(numbers).through_process("sort", "-n").lines().map(int)) == list(range(10_007))


@pytest.mark.parametrize("size", [1, 7, 2_048])
def test_how_the_input_of_a_process_is_cut_changes_no_byte(size):
    data = [b"%d\n" % n for n in range(100)]
    assert whole(Source.from_iterable(data).max_chunk(size).through_process("cat")) == b"".join(data)


def test_more_than_the_pipes_hold_goes_through_a_process():
    data = [os.urandom(1_000) * 66 for _ in range(100)]
    assert whole(Source.from_iterable(data).through_process("cat")) == b"".join(data)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (
            ("sh", "-c", "cat; echo first >&2; echo bad input >&2; exit 3"),
            3,
            "ended with exit code 3; it wrote: first\nbad input",
        ),
        (("sh", "-c", "kill -9 $$"), -9, "was ended by signal 9"),
        (("no-such-program", "x"), None, "process 'no-such-program x' cannot be started: No such file or directory"),
    ],
)
def test_a_process_that_fails_is_named_with_its_exit_code_and_what_it_wrote(command, code, message):
    with pytest.raises(ProcessFailed, match=message) as raised:
        run(Source.single(b"x").through_process(*command))
    assert raised.value.exit_code == code


def test_the_output_before_the_failure_is_emitted():
    seen: list[bytes] = []
    source = Source.single(b"data").through_process("sh", "-c", "cat; exit 1")
    with pytest.raises(ProcessFailed):
        source.run_with(Sink.foreach(seen.append)).result(10)
    assert b"".join(seen) == b"data"


def test_an_exit_code_may_be_accepted():
    assert run(Source.single(b"abc\n").through_process("grep", "x", accept=(0, 1))) == []


def test_a_process_that_reads_no_more_ends_an_endless_stream():
    assert whole(Source.repeat(b"a\n").through_process("head", "-n", "2")) == b"a\na\n"


def ends(pid: int) -> None:
    """Wait for the end of a process; end it and fail when it does not come."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("the process still runs")


def test_a_process_is_ended_when_the_stream_is_cancelled():
    """The shell ignores SIGTERM, so only SIGKILL after `grace` ends it."""
    script = 'trap "" TERM; echo $$; while :; do sleep 0.05; done'
    source = Source.never().through_process("sh", "-c", script, grace="50ms")
    ends(int(source.lines().run_with(Sink.head()).result(10)))


def test_a_process_that_has_closed_its_output_is_ended_when_the_stream_is_cancelled(tmp_path):
    """The stream waits for its exit code then. The process got no signal, and the stage waited forever."""
    heard = tmp_path / "heard"
    os.mkfifo(heard)
    script = 'echo $$; exec >&-; cat > /dev/null; echo > "$0"; while :; do sleep 0.05; done'
    seen: SimpleQueue[bytes] = SimpleQueue()
    switch = (
        Source.never()
        .through_process("sh", "-c", script, str(heard))
        .map(seen.put)
        .via_mat(KillSwitches.single(), Keep.right)
        .to(Sink.ignore())
        .run()
    )
    heard.read_bytes()  # the input was closed: the stage has read the end of the output, and waits for the exit code
    said = seen.get(timeout=10)
    switch.shutdown()
    ends(int(said))


def test_a_process_ends_with_its_actor_system():
    """The asyncio loop ended first, and nobody ended the process any more."""
    came: SimpleQueue[bytes] = SimpleQueue()
    with ActorSystem("ends with its processes") as system:
        source = Source.never().through_process("sh", "-c", "echo $$; while :; do sleep 0.05; done")
        done = source.run_with(Sink.foreach(came.put), system)
        pid = int(came.get(timeout=20))
    ends(pid)
    assert isinstance(done.exception(10), AbruptTermination)


def test_a_command_line_in_one_text_is_no_program():
    with pytest.raises(BuildError, match='a program and its arguments as strings, such as "sort", "-n"'):
        Flow.identity().through_process(["sort", "-n"])


# ── standard streams ──────────────────────────────────────────────────────────────────────────────────────────────────

CAPITALS = """
from streamactors import Sink, Source
Source.from_stdin().map(bytes.upper).run_with(Sink.to_stdout()).result(20)
"""


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_standard_input_goes_to_standard_output(tmp_path, kind):
    command = [sys.executable, "-c", CAPITALS]
    if kind == "pipe":
        done = subprocess.run(command, input=b"hello " * 1_000, capture_output=True, timeout=60)
    else:
        (tmp_path / "in").write_bytes(b"hello " * 1_000)
        with (tmp_path / "in").open("rb") as stdin:
            done = subprocess.run(command, stdin=stdin, capture_output=True, timeout=60)
    assert done.stdout == b"HELLO " * 1_000
    assert done.stderr == b""


def test_standard_output_takes_bytes_and_says_so(capfd):
    with pytest.raises(NotBytes, match=r"to_stdout expects bytes, got str 'a'; encode it: .map\(str.encode\)"):
        Source.from_iterable(["a"]).run_with(Sink.to_stdout()).result(timeout=20)
    assert capfd.readouterr().out == ""


def test_a_cancelled_read_of_standard_input_blocks_no_thread_at_the_end():
    program = "from streamactors import *\nSource.from_stdin().run_with(Sink.head()).result(20)\nprint('done')"
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.write(b"x")
    child.stdin.flush()
    assert child.communicate(timeout=60)[0] == b"done\n"
    assert child.returncode == 0
