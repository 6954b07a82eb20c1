"""Streams whose ends are in two processes, and what the death of one end means to the other."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading

import pytest

from streamactors import (
    Keep,
    KillSwitches,
    Sink,
    Source,
    SourceRef,
    StreamRefError,
    StreamRefs,
)
from tests.actors.eventually import eventually
from tests.dsl.stream_ref_ends import received, sent
from tests.own_process import own_process

SENDER = """
import sys
from streamactors import *
ref = Source.range(0, {n}).concat(Source.never() if {endless} else Source.empty()).run_with(StreamRefs.source_ref()).result(10)
print(ref, flush=True)
sys.stdin.read()
"""


READER = """
import sys
from streamactors import *
SourceRef.parse(sys.argv[1]).source().run_with(Sink.foreach(lambda x: print(x, flush=True))).result(30)
"""


def started(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_another_process_sends():
    child = started(SENDER.format(n=10_000, endless=False))
    assert child.stdout is not None
    ref = SourceRef.parse(child.stdout.readline().strip())
    assert ref.source().run_with(Sink.to_list()).result(30) == list(range(10_000))
    _, errors = child.communicate(timeout=30)
    assert (child.returncode, errors) == (0, "")


def test_the_reader_hears_that_the_sending_process_was_killed():
    child = started(SENDER.format(n=10, endless=True))
    assert child.stdout is not None
    queue = SourceRef.parse(child.stdout.readline().strip()).source().run_with(Sink.to_queue(1))
    for n in range(10):
        assert queue.pull().result(30) == n
    child.send_signal(signal.SIGKILL)
    with pytest.raises(StreamRefError, match="the other end is gone: the connection has ended"):
        queue.pull().result(30)
    child.communicate()


@pytest.mark.expects_log("a stream has failed and nobody has read its result")
def test_the_sender_hears_that_the_reading_process_was_killed():
    switch, ref = (
        Source.range(0, 5)
        .concat(Source.never())
        .via_mat(KillSwitches.single(), Keep.right)
        .watch_termination(Keep.both)
        .to_mat(StreamRefs.source_ref(), Keep.both)
        .run()
    )
    (_, ended), ref = switch, ref.result(10)
    child = started(READER, str(ref))
    assert child.stdout is not None
    for n in range(5):
        assert child.stdout.readline() == f"{n}\n"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    error = ended.exception(30)
    assert error is not None
    assert "the other end is gone" in str(error)


@own_process
def test_two_hundred_runs_leave_no_descriptor_and_no_thread():
    def once() -> None:
        assert sent(Source.range(0, 3)).source().run_with(Sink.to_list()).result(10) == [0, 1, 2]
        sink_ref, got = received()
        Source.range(0, 3).run_with(sink_ref.sink()).result(10)
        got.result(10)
        assert sent(Source.repeat(1)).source().run_with(Sink.head()).result(10) == 1
        unused, switch = (
            StreamRefs.sink_ref().via_mat(KillSwitches.single(), Keep.both).to_mat(Sink.ignore(), Keep.left).run()
        )
        unused.result(10)
        switch.shutdown()

    def opened() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    for _ in range(10):
        once()
    descriptors, threads = opened(), threading.active_count()
    for _ in range(50):
        once()  # four runs each
    eventually(lambda: opened() <= descriptors + 1)  # sockets close after the end of their streams
    assert threading.active_count() <= threads + 20, "the pool grows with the load, not with the number of runs"
