"""A cycle that cannot complete is warned of once, when its graph is built; a cycle that something ends is not."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors import ActorSystem, Broadcast, Flow, GraphDSL, Merge, MergePreferred, Sink, Source, Zip


def looped(
    through: Flow[Any, Any, Any] | None = None,
    *,
    source: Source[Any, Any] | None = None,
    join: Any = None,
    fork: Any = None,
) -> Any:
    """What is merged goes to a sink and, through a flow, back into the merge."""
    with GraphDSL() as g:
        merge, split = g.add(join or Merge(2)), g.add(fork or Broadcast(2))
        sink = g.add(Sink.to_list(), keep=True)
        g.add(source or Source.range(0, 3)) >> merge.in_(0)
        merge >> split
        split.out(0) >> sink
        split.out(1) >> (through or Flow.filter(lambda n: False)) >> merge.in_(1)
    return g.to_runnable()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "cannot complete" in record.getMessage()]


def test_a_merge_that_waits_for_itself_is_warned_of_once(
    actor_system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    """The stream emitted everything and then stood forever, without a word."""
    graph = looped()
    for _ in range(2):
        (done,) = graph.run(actor_system)
        with pytest.raises(TimeoutError):
            done.result("20ms")
        done.cancel()
    (said,) = warnings(caplog)
    assert "the cycle merge -> broadcast -> filter -> merge cannot complete: 'merge' ends when all its inputs" in said
    assert "eager_complete=True" in said


@pytest.mark.parametrize(
    "through",
    [
        Flow.map(lambda n: n).async_boundary().filter(lambda n: False),
        Flow.map_concat(lambda n: [n + 10] if n < 10 else []),
        Flow.map_async(2, lambda n: n).filter(lambda n: False),
        Flow.filter(lambda n: False).buffer(10, "backpressure"),
    ],
    ids=["boundary", "map_concat", "map_async", "buffer"],
)
def test_whatever_only_passes_its_upstreams_end_on_does_not_end_a_cycle(
    actor_system: ActorSystem, caplog: pytest.LogCaptureFixture, through: Flow[Any, Any, Any]
) -> None:
    (done,) = looped(through).run(actor_system)
    assert len(warnings(caplog)) == 1
    with pytest.raises(TimeoutError):
        done.result("20ms")


def test_a_feedback_that_ends_is_not_warned_of(actor_system: ActorSystem, caplog: pytest.LogCaptureFixture) -> None:
    (taken,) = looped(Flow.map(lambda n: n + 10).buffer(16, "backpressure").take(3)).run(actor_system)
    assert len(taken.result(10)) == 6
    (eager,) = looped(join=Merge(2, eager_complete=True)).run(actor_system)
    eager.result(10)
    (preferred,) = looped(join=MergePreferred(1, eager_complete=True)).run(actor_system)
    preferred.result(10)
    (stopped,) = looped(Flow.buffer(16, "backpressure").take_while(lambda n: n < 1)).run(actor_system)
    stopped.result(10)
    assert warnings(caplog) == []


def test_a_zip_and_an_endless_source_are_not_warned_of(
    actor_system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    """Zip ends with its shorter input; an endless source has no end to wait for."""
    with GraphDSL() as g:
        join, fork, sink = g.add(Zip()), g.add(Broadcast(2)), g.add(Sink.to_list(), keep=True)
        g.add(Source.range(0, 5)) >> join.in_(0)
        join >> Flow.map(lambda pair: pair[0]) >> fork
        fork.out(0) >> sink
        fork.out(1) >> Flow.prepend(Source.single(-1)) >> join.in_(1)
    (done,) = g.to_runnable().run(actor_system)
    assert done.result(10) == [0, 1, 2, 3, 4]
    (endless,) = looped(source=Source.never()).run(actor_system)
    endless.cancel()
    assert warnings(caplog) == []


def test_two_inputs_of_one_source_are_no_cycle(actor_system: ActorSystem, caplog: pytest.LogCaptureFixture) -> None:
    with GraphDSL() as g:
        fork, join, sink = g.add(Broadcast(2)), g.add(Merge(2)), g.add(Sink.to_list(), keep=True)
        g.add(Source.range(0, 3)) >> fork
        fork.out(0) >> join.in_(0)
        fork.out(1) >> Flow.map(lambda n: -n) >> join.in_(1)
        join >> sink
    (done,) = g.to_runnable().run(actor_system)
    assert len(done.result(10)) == 6
    assert warnings(caplog) == []
