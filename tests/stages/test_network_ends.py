"""How TCP connections end: resources of many runs, and the end of the loop."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from types import SimpleNamespace

import pytest

from streamactors import (
    Flow,
    Keep,
    KillSwitches,
    Sink,
    Source,
    Tcp,
)
from streamactors.stages.network.duplex import DuplexLogic
from tests.own_process import own_process
from tests.stages.test_network import settled, whole


@pytest.mark.expects_log("the connection from")
@own_process
def test_two_hundred_runs_leave_no_descriptor_thread_or_process():
    binding = Tcp.bind_and_handle(Flow.map(bytes.upper)).result(10)
    flow = Tcp.outgoing_connection(*binding.address)

    def once(n: int) -> None:
        assert whole(Source.single(b"x").via(flow)) == b"X"
        assert Source.single(b"x").concat(Source.never()).via(flow).run_with(Sink.head()).result(10) == b"X"
        Source.single(1).map(lambda x: 1 // 0).via(flow).run_with(Sink.ignore()).exception(10)
        switch, end = (
            Source.never().via(flow).via_mat(KillSwitches.single(), Keep.right).to_mat(Sink.ignore(), Keep.both).run()
        )
        switch.shutdown()
        end.result(10)
        if n % 4 == 0:
            assert whole(Source.single(b"x").through_process("cat")) == b"x"
            Source.never().through_process("yes").run_with(Sink.head()).result(10)

    def left() -> tuple[int, int]:
        gc.collect()
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    for n in range(20):
        once(n)
    before = (settled(lambda: left()[0]), left()[1])
    for n in range(50):
        once(n)  # four runs each
    after = (settled(lambda: left()[0]), left()[1])
    assert after[0] <= before[0] + 2
    assert after[1] <= before[1] + 20, "the pool grows with the load, not with the number of runs"
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    binding.unbind().result(10)


class Written:
    """The writer of a connection; notes how it ends."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.transport = SimpleNamespace(abort=lambda: self.ends.append("reset"))

    def get_extra_info(self, name: str) -> None:
        return None

    def close(self) -> None:
        self.ends.append("closed")


@pytest.mark.parametrize(("stopped", "ends"), [(True, ["closed"]), (False, ["reset", "closed"])])
def test_a_connection_whose_stream_has_ended_well_is_not_reset_by_the_end_of_the_loop(stopped, ends):
    # The stream ends, and schedules a coroutine that closes its connection -> the system ends -> the loop cancels the coroutine before it runs.
    logic, writer = DuplexLogic(None), Written()
    logic._loop, logic._writer, logic.stopped = SimpleNamespace(closings={logic._break_off: None}), writer, stopped
    asyncio.run(logic._break_off())
    assert writer.ends == ends
    assert logic._loop.closings == {}
