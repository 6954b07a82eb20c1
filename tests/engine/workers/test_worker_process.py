"""Stages in a worker process: the same results as without, refusals at the build, ends and errors in both directions."""

from __future__ import annotations

import decimal
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from streamactors import Flow, Keep, KillSwitches, Sink, Source
from streamactors.codec import CodecError
from streamactors.engine.snapshot import snapshots
from streamactors.errors import BuildError, StageFailed, WorkerDied
from streamactors.testing import TestSink


def double(x):
    return 2 * x


def in_worker(source, system, flow):
    return source.async_boundary(process=True).via(flow).run_with(Sink.to_list(), system).result(30)


def test_the_stages_up_to_the_next_boundary_run_in_another_process(system):
    pids = Flow.map(lambda _: os.getpid())
    inside, behind = (
        Source.range(0, 5)
        .async_boundary(process=True)
        .via(pids)
        .async_boundary()
        .map(lambda pid: (pid, os.getpid()))
        .run_with(Sink.last(), system)
        .result(30)
    )
    assert inside != os.getpid() == behind


def test_functions_go_by_import_name_and_lambdas_by_value(system):
    offset = 7
    result = in_worker(Source.range(0, 10_000), system, Flow.map(double).map(lambda x: x + offset))
    assert result == [2 * x + 7 for x in range(10_000)]


def test_arrays_and_values_arrive_as_they_were_sent(system):
    np = pytest.importorskip("numpy")
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": [1, 2], "b": ["x", None]})
    sent = [
        np.arange(6.0).reshape(2, 3),
        (1, np.arange(4, dtype="i2")),
        np.float32(1.5),
        table,
        table.to_batches()[0],
        table.column("a").chunk(0),
        decimal.Decimal("1.50"),
        2**80,
        (1, "a"),
        b"x" * 100_000,
        None,
    ]
    got = in_worker(Source.from_iterable(sent), system, Flow.map(lambda x: x))
    for before, after in zip(sent, got, strict=True):
        assert type(before) is type(after)
        if isinstance(before, np.ndarray):
            assert before.dtype == after.dtype
            assert (before == after).all()
            after += 1  # it may be written to
        elif isinstance(before, tuple) and isinstance(before[1], np.ndarray):
            assert (before[1] == after[1]).all()
        else:
            assert before == after


def test_other_types_are_refused_by_name_behind_the_elements_before_them(system):
    seen = []
    source = Source.from_iterable([1, 2, object(), 4]).async_boundary(process=True).map(double)
    with pytest.raises(CodecError, match=r"elements of stage 'from_iterable' cannot enter the worker.*builtins.object"):
        source.run_with(Sink.foreach(seen.append), system).result(30)
    seen.clear()
    results = Source.range(0, 10).async_boundary(process=True).map(lambda x: x if x < 5 else {x})
    with pytest.raises(CodecError, match=r"results of stage 'map' cannot leave the worker process: a builtins.set"):
        results.run_with(Sink.foreach(seen.append), system).result(30)
    assert seen == [0, 1, 2, 3, 4]


def test_an_error_of_user_code_names_stage_element_and_line(system):
    with pytest.raises(ZeroDivisionError) as raised:
        in_worker(Source.range(0, 100), system, Flow.map(lambda x: 1 // (x - 50)))
    assert any("in stage map, element 50" in note and __file__ in note for note in raised.value.__notes__)


def test_an_exception_of_a_class_of_the_users_becomes_a_stage_failed_with_its_name_and_text(system):
    def fails(x):
        raise Odd("odd", x)

    with pytest.raises(StageFailed, match=r"Odd: \('odd', 0\)"):
        in_worker(Source.range(0, 3), system, Flow.map(fails))


class Odd(Exception):
    pass


def test_a_failure_upstream_passes_through_the_worker_as_the_same_object(system):
    error = Odd("upstream")

    def fails(x):
        if x == 3:
            raise error
        return x

    with pytest.raises(Odd) as raised:
        in_worker(Source.range(0, 10).map(fails), system, Flow.map(double))
    assert raised.value is error
    recovered = in_worker(Source.range(0, 10).map(fails), system, Flow.map(double).recover(lambda e: str(e)))
    assert recovered[-1] == f"{__name__}.Odd: upstream"


def test_a_worker_ends_when_downstream_cancels_and_when_its_stages_complete(system):
    endless = Source.repeat(1).async_boundary(process=True).map(double)
    assert endless.async_boundary().take(3).run_with(Sink.to_list(), system).result(30) == [2, 2, 2]
    assert endless.take(3).run_with(Sink.to_list(), system).result(30) == [2, 2, 2]


def test_a_kill_switch_before_the_worker_completes_the_stream(system):
    switch, done = (
        Source.repeat(1)
        .via_mat(KillSwitches.single(), Keep.right)
        .async_boundary(process=True)
        .map(double)
        .to_mat(Sink.fold(0, lambda n, _: n + 1), Keep.both)
        .run(system)
    )
    switch.shutdown()
    assert done.result(30) >= 0


def test_a_worker_that_dies_fails_the_stream_with_the_stage_and_the_signal(system):
    def dies(x):
        if x == 30:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    with pytest.raises(
        WorkerDied, match=r"of stage 'map' was killed by signal 9 \(SIGKILL\).*nothing in this run reads marks"
    ):
        in_worker(Source.range(0, 100), system, Flow.map(dies))
    with pytest.raises(WorkerDied, match=r"ended with exit code 3"):
        in_worker(Source.range(0, 100), system, Flow.map(lambda _: os._exit(3)))


def test_the_demand_of_a_slow_sink_reaches_through_the_worker(system):
    taken = []

    def note(x):
        taken.append(x)
        return x

    probe = (
        Source.range(0, 100_000)
        .map(note)
        .async_boundary(4, process=True)
        .map(double)
        .async_boundary(4)
        .run_with(TestSink.probe("30s"), system)
    )
    assert probe.request(3).expect_next_n(3) == [0, 2, 4]
    assert len(taken) < 3_000  # windows of 4, and what the stages between them may have taken
    probe.cancel()


def test_the_snapshot_shows_the_process(system):
    probe = Source.repeat(1).async_boundary(process=True).map(double).run_with(TestSink.probe("30s"), system)
    assert probe.request_next() == 2
    (shot,) = snapshots(system)
    assert "process " in shot.stage("worker process: map").state
    assert "worker process: map" in shot.to_mermaid()
    probe.cancel()


def test_what_cannot_be_sent_is_an_error_when_the_graph_is_run(system):
    lock = threading.Lock()
    graph = Source.range(0, 3).async_boundary(process=True).map(lambda x: (x, lock)[0]).to(Sink.ignore())
    with pytest.raises(
        BuildError, match=r"stage 'map' cannot be sent to a worker process: .*lock.*test_worker_process.py"
    ):
        graph.run(system)


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (lambda s: s.to(Sink.ignore()), "followed by 'ignore'"),
        (lambda s: s.async_boundary().map(double).to(Sink.ignore()), "followed by 'async_boundary'"),
        (lambda s: s.map(double).also_to(Sink.ignore()).map(double).to(Sink.ignore()), "stage 'map' is between"),
    ],
)
def test_stages_that_would_not_run_where_the_graph_says_are_an_error(system, graph, reason):
    with pytest.raises(BuildError, match=reason):
        graph(Source.range(0, 3).async_boundary(process=True)).run(system)


def test_junctions_and_sinks_stay_in_this_process(system):
    ends = []
    done = (
        Source.range(0, 100)
        .async_boundary(process=True)
        .map(double)
        .also_to(Sink.to_list().map_materialized_value(ends.append))
        .run_with(Sink.fold(0, lambda a, b: a + b), system)
    )
    assert done.result(30) == 9_900
    assert ends[0].result(30) == list(range(0, 200, 2))


def test_two_workers_in_a_row_and_two_side_by_side(system):
    row = Source.range(0, 1_000).async_boundary(process=True).map(double).async_boundary(process=True).map(double)
    assert row.run_with(Sink.to_list(), system).result(30) == list(range(0, 4_000, 4))
    side = Source.range(0, 1_000).async_boundary(process=True).map(double).async_boundary()
    both = side.merge(Source.range(0, 1_000).async_boundary(process=True).map(double).async_boundary())
    assert sorted(both.run_with(Sink.to_list(), system).result(30)) == sorted([*range(0, 2_000, 2)] * 2)


def test_the_shutdown_of_the_system_ends_a_worker_that_computes(system, tmp_path):
    computes = str(tmp_path / "computes")
    os.mkfifo(computes)

    def spins(x):
        with open(computes, "w"):
            pass
        while True:
            x += 1

    done = Source.range(0, 3).async_boundary(process=True).map(spins).run_with(Sink.ignore(), system)
    with open(computes):
        pass
    system.shutdown()
    assert done.exception(30) is not None


PROGRAM = """
import sys
{hide}
from streamactors import Sink, Source
def double(x): return 2 * x
def start():
    print(Source.range(0, 4).async_boundary(process=True).map(double).run_with(Sink.to_list()).result(30))
{guard}start()
"""


@pytest.mark.parametrize("cloudpickle", [True, False])
@pytest.mark.parametrize("guarded", [True, False])
def test_functions_of_the_main_program_need_a_guard_only_without_cloudpickle(tmp_path, cloudpickle, guarded):
    program = tmp_path / "program.py"
    guard = 'if __name__ == "__main__":\n    ' if guarded else ""
    hide = "" if cloudpickle else "sys.modules['cloudpickle'] = None"
    program.write_text(textwrap.dedent(PROGRAM).format(hide=hide, guard=guard))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=False)
    if cloudpickle or guarded:
        assert (done.stdout, done.returncode) == ("[0, 2, 4, 6]\n", 0), done.stderr
    else:
        last, docs = done.stderr.strip().splitlines()[-2:]
        assert (done.returncode, docs) == (1, "docs: errors#stage-failed")
        assert "program.py starts a stream with worker processes when it is imported" in last
        assert 'put the start under if __name__ == "__main__":' in last


def test_a_lambda_without_cloudpickle_says_what_to_do(system, monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    graph = Source.range(0, 3).async_boundary(process=True).map(lambda x: x).to(Sink.ignore())
    with pytest.raises(BuildError, match=r"stage 'map' .*install 'streamactors\[processes\]'"):
        graph.run(system)


def test_a_worker_is_killed_with_its_parent(tmp_path):
    program = tmp_path / "parent.py"
    program.write_text(
        textwrap.dedent("""
        import os, time
        from streamactors import Sink, Source
        def spins(x):
            print(os.getpid(), flush=True)
            while True:
                x += 1
        if __name__ == "__main__":
            Source.range(0, 3).async_boundary(process=True).map(spins).run_with(Sink.ignore()).result(30)
        """)
    )
    parent = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        watch = os.pidfd_open(worker)
        parent.kill()
    import select

    try:
        assert select.select([watch], [], [], 30)[0], "the worker process has outlived its parent"
    finally:
        os.close(watch)


@pytest.mark.parametrize("length", [10, 3_000, 65_536, 3_000_000])
def test_byte_strings_of_every_length_cross_in_both_directions(system, length):
    """Long ones go through shared memory beside the socket, in pieces; the longest ones over the socket."""
    elements = [bytes([i]) * (length + i) for i in range(48)]
    assert in_worker(Source.from_iterable(elements), system, Flow.map(bytes.swapcase)) == list(
        map(bytes.swapcase, elements)
    )
