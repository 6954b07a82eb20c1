"""The laws that every flow operator must keep, as functions of a Case.

The input is 0, 1, 2, …, cut into chunks of any sizes; the actions of a run (send, request, mark, wait) come in any order and are
ended by completion, failure or cancellation at any point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from streamactors.actors.system import ActorSystem
from streamactors.engine.attributes import NONE, Attributes
from streamactors.engine.stage import GraphStage
from streamactors.engine.supervision import resuming
from streamactors.errors import NoSuchElement
from tests.stages.harness import Bench

Hook = Callable[[int], None]


def own(result: Any) -> set[int]:
    """The origins of a result that shows them itself: an int, or a collection of ints."""
    if isinstance(result, int):
        return {result}
    return {x for x in result if isinstance(x, int)} if isinstance(result, list | tuple) else set()


@dataclass(frozen=True)
class Case:
    """An operator with its plain-Python model.

    `make(hook)`: the stage, whose user function calls `hook(element)` first. `model(elements)`: all results of a stream that
    completes. `origins(result)`: the elements it directly stems from. `demand(n)`: how many elements may be asked of upstream when n
    results were requested; None: as many as it likes (it buffers). `step_ms`: the time that passes at each step of draining."""

    make: Callable[[Hook], GraphStage]
    model: Callable[[list[int]], list[Any]] = list
    origins: Callable[[Any], set[int]] = own
    demand: Callable[[int], int] | None = lambda n: n
    calls: bool = True
    called: range = range(1_000)
    """The elements for which the user function is called."""
    supervised: bool = True
    step_ms: float = 0
    early: bool = False
    """It may complete before upstream does."""
    verify: Callable[[list[Any], list[int], bool], None] | None = None
    """Instead of the model, where what comes out depends on timing: (received, sent, whether the stream completed)."""
    fails_empty: bool = False
    """A stream without elements fails it."""
    loses_on_failure: bool = False
    """A failure overtakes results that it holds."""


def nothing(_: int) -> None:
    """The hook that does nothing."""


Action = tuple[str, int]

STEPS = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 5)),
    st.tuples(st.just("request"), st.integers(1, 6)),
    st.tuples(st.just("mark"), st.just(0)),
    st.tuples(st.just("signal"), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 30)),
)
RUNS = st.tuples(
    st.lists(STEPS, max_size=14),
    st.sampled_from(["complete", "complete", "complete", "fail", "cancel"]),
    st.lists(st.integers(1, 6), max_size=3),
    st.sampled_from([None, None, 1, 2]),
)


class Broken(Exception):
    """The failure of a scripted upstream."""


def perform(bench: Bench, steps: list[Action]) -> None:
    for what, n in steps:
        if what == "send":
            first = len(bench.sent)
            bench.send(*range(first, first + n))
        elif what == "request":
            bench.request(n)
        elif what == "mark":
            bench.mark()
        elif what == "signal":
            bench.signal()
        else:
            bench.advance(n / 1_000)


def check_run(case: Case, system: ActorSystem, run: Any) -> None:
    """Any interleaving of demand, chunks, marks and an end keeps the laws, and what comes out is the model's."""
    steps, ending, requests, max_chunk = run
    attributes = NONE if max_chunk is None else Attributes(max_chunk=max_chunk)
    with Bench(system, case.make(nothing), attributes) as bench:
        perform(bench, steps)
        if ending == "complete":
            bench.complete()
        elif ending == "fail":
            bench.fail(Broken("upstream"))
        else:
            bench.cancel()
        for n in requests:
            bench.request(n)
        bench.drain(step_ms=case.step_ms)
        bench.check_laws()
        received = bench.received
        if ending == "complete" and case.fails_empty and not bench.sent:
            assert isinstance(bench.end, NoSuchElement)
            return
        elif ending == "complete":
            assert bench.end == "completed", bench.end
            if case.verify is not None:
                case.verify(received, bench.sent, True)
            else:
                assert received == case.model(bench.sent)
        else:
            if ending == "fail" and not case.early:
                assert isinstance(bench.end, Broken), bench.end
            if case.verify is not None:
                case.verify(received, bench.sent, False)
            else:
                assert any(
                    received == case.model(bench.sent[:k])[: len(received)] for k in range(len(bench.sent) + 1)
                ), f"{received} is no prefix of what the model gives"
        if case.demand is not None:
            assert bench.source.peak <= case.demand(bench.requested), "asked for more than downstream did"
        check_marks(case, bench, ending == "complete")


def check_marks(case: Case, bench: Bench, completed: bool) -> None:
    """The laws of position marks, for what the stage declares."""
    handling = bench.watched.handling  # type: ignore[union-attr]
    seen = bench.seen
    marks = bench.marks
    assert marks == sorted(marks), "a mark went back"
    assert set(marks) <= set(bench.marked), "a mark that nobody sent"
    if not handling.passes:
        assert not marks
        assert not any(kind == "signal" for kind, _ in seen)
        return
    arrived = [x for kind, x in seen if kind == "signal"]
    known = dict(bench.signalled)
    assert arrived == list(known)[: len(arrived)], "a signal was dropped or has changed places"
    for i, (kind, x) in enumerate(seen):
        if kind == "element":
            continue
        position = known[x] if kind == "signal" else x
        before = [x for what, x in seen[:i] if what == "element"]
        after = [x for what, x in seen[i:] if what == "element"]
        assert all(min(case.origins(x), default=position) >= position for x in after), (
            f"mark {position} has overtaken elements it covers: {seen}"
        )
        if handling.exact:
            assert all(max(case.origins(x), default=-1) < position for x in before), (
                f"something from behind mark {position} came out before it: {seen}"
            )
        if completed and not case.early and not handling.remembers:
            again = case.model(bench.sent[position:])
            if handling.exact:
                assert after == again, f"a run from mark {position} would give something else"
            else:
                behind = [x for x in before + after if min(case.origins(x), default=position) >= position]
                assert sorted(behind) == sorted(again), f"a run from mark {position} would give something else"
    if completed and not case.early:
        assert arrived == list(known), "every signal must arrive when the stream completes"
        assert marks[-1:] == bench.marked[-1:], "the last mark must arrive when the stream completes"


def check_user_error(case: Case, system: ActorSystem, sizes: list[int], at: int, kind: type[Exception]) -> None:
    """An exception of user code at one element: what came before it goes out first, then the stream fails with it."""
    raised = kind(f"at {at}")

    def hook(element: int) -> None:
        if element == at:
            raise raised

    total = sum(sizes)
    with Bench(system, case.make(hook)) as bench, Bench(system, case.make(nothing)) as before:
        for one in (bench, before):
            one.request(1_000)
        first = 0
        for size in sizes:
            bench.send(*range(first, first + size))
            before.send(*range(first, min(first + size, at)))
            first += size
        for one in (bench, before):
            if case.step_ms:
                one.advance(case.step_ms / 1_000)
        if at >= total or at not in case.called or before.end is not None:
            return
        assert bench.end is raised, f"{bench.end!r} instead of {raised!r}"
        assert any(f"element {at}" in note or "element [" in note for note in raised.__notes__), raised.__notes__
        if case.loses_on_failure:
            assert bench.received == before.received[: len(bench.received)]
        else:
            assert bench.received == before.received
        bench.check_laws()


def check_resume(case: Case, system: ActorSystem, sizes: list[int], at: int) -> None:
    """With a decider that resumes, the element that raised is left out, and nothing else."""

    def hook(element: int) -> None:
        if element == at:
            raise ValueError(f"at {at}")

    with Bench(system, case.make(hook), Attributes(decider=resuming)) as bench:
        bench.request(5)
        first = 0
        for size in sizes:
            bench.send(*range(first, first + size))
            first += size
        bench.complete()
        bench.drain(step_ms=case.step_ms)
        bench.check_laws()
        if at not in case.called or (case.fails_empty and set(bench.sent) <= {at}):
            return
        expected = case.model([x for x in bench.sent if x != at])
        if case.early:  # what it saw of the input depends on the element that was left out
            assert bench.received[: len(expected)] == expected[: len(bench.received)]
        else:
            assert bench.received == expected
