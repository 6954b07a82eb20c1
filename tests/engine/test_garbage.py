"""What has ended goes at once, without waiting for the garbage collector."""

from __future__ import annotations

import gc
import time
import weakref
from functools import partial

from streamactors import ActorSystem, Keep, Sink, Source
from streamactors.engine.island.run import Run, runs_of


def test_a_run_that_ended_is_freed_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        with ActorSystem("garbage") as system:
            graph = Source.range(0, 10).map(str).async_boundary().grouped(3).to_mat(Sink.to_list(), Keep.right)
            done = graph.run(system)
            kept = [weakref.ref(island) for run in runs_of(system) for island in run.islands]
            assert done.result(30)[-1] == ["9"]
            del done
            deadline = time.monotonic() + 30
            while any(each() is not None for each in kept) and time.monotonic() < deadline:
                time.sleep(0.001)
            assert [each() for each in kept if each() is not None] == []
    finally:
        gc.enable()


def test_what_the_stages_of_a_run_share_goes_with_the_run() -> None:
    class KnowsItsRun:
        def __init__(self, run: Run) -> None:
            self.run = run

    with ActorSystem("garbage") as system:
        done = Source.never().to_mat(Sink.ignore(), Keep.right).run(system)
        (run,) = runs_of(system)
        kept = weakref.ref(run.shared(KnowsItsRun, partial(KnowsItsRun, run)))
        assert kept() is run.shared(KnowsItsRun, partial(KnowsItsRun, run))
        del run
    done.exception(30)
    del done, system
    gc.collect()
    assert kept() is None
