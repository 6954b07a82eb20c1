"""A law over random graphs: a range that is repeated has the rows of its elements, wherever the marks beside its end have been merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, Keep, Sink, Source
from streamactors.engine.attributes import Attributes
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import Mark
from streamactors.engine.marks.ownership import PARTITION, SourceHandle, own
from streamactors.engine.sink import SinkLogic
from streamactors.engine.stage import SINK, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.spark.sink.batch_state import BatchPhase, BatchState

N = 24
PART = f"0/{PARTITION}"


class Repeating(SinkLogic):
    """Repeats one range, as Spark's sink does, and gathers what follows."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__()
        self._range = start, end
        self._state = BatchState()

    def bind(self) -> None:
        super().bind()
        own(self.interpreter.island.run, self.in_.carries, self)

    def claim(self, source: Any, handle: SourceHandle) -> None:
        start, end = self._range
        self._state.begin({PART: start}, {PART: end})
        handle.begin({PARTITION: start}, {PARTITION: end}, skip_lost=False)

    def on_chunk(self, chunk: list[Any]) -> None:
        self._state.add(chunk, len(chunk))

    def on_mark(self, in_: Any, mark: Mark) -> None:
        if isinstance(mark, dict):
            ((_, place),) = mark.values()
            self._state.mark({PART: place}, mark)

    def result(self) -> tuple[list[int], list[int], int]:
        """Return the rows of the range, the rows that follow, and the position behind them."""
        self._state.end_of_input()
        assert self._state.phase is BatchPhase.GIVING
        batches: list[list[int]] = []
        at = {PART: self._range[0]}
        if self._range[0] == self._range[1]:
            batches.append([])
        while (batch := self._state.cut(1 << 30, empty_too=True)) is not None:
            batches.append([row for chunk in batch.chunks for row in chunk])
            at = batch.end
            if len(batches) == 1:
                assert at == {PART: self._range[1]}, "a repeated batch has its old end"
            self._state.acknowledge(at)
        first, *rest = batches
        return first, [row for batch in rest for row in batch], at[PART]


class RepeatingStage(GraphStage):
    shape = SINK
    traits = StageTraits(reads_marks=True, owns_positions="the test")

    def __init__(self, start: int, end: int) -> None:
        self._range = start, end

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = Repeating(*self._range)
        return logic, logic.future


@dataclass(frozen=True)
class Step:
    """A stage and what it makes of a list."""

    name: str
    stage: Callable[[Source[int, Any]], Source[int, Any]]
    model: Callable[[list[int]], list[int]] = lambda rows: rows

    def __repr__(self) -> str:
        return self.name


def filtered(kept: int) -> Step:
    keep = lambda n: bool(kept >> n % N & 1)  # noqa: E731
    return Step(f"filter({kept:#b})", lambda source: source.filter(keep), lambda rows: [n for n in rows if keep(n)])


def spread(k: int) -> Step:
    """As many copies as the number has of `k`: none for some numbers, several for others."""
    return Step(
        f"map_concat({k})",
        lambda source: source.map_concat(lambda n: [n] * (n % k)),
        lambda rows: [n for n in rows for _ in range(n % k)],
    )


STEPS = st.one_of(
    st.builds(filtered, st.integers(0, (1 << N) - 1)),
    st.sampled_from([0, 0b111, 1 << (N - 1)]).map(filtered),
    st.builds(spread, st.integers(1, 3)),
    st.sampled_from(
        [
            Step("async_boundary", lambda source: source.async_boundary()),
            Step("small boundary", lambda source: source.async_boundary(1)),
            Step("map", lambda source: source.map(lambda n: n)),
            Step("map_async", lambda source: source.map_async(2, lambda n: n)),
            Step("buffer", lambda source: source.buffer(2)),
            Step("max_chunk", lambda source: source.max_chunk(2)),
        ]
    ),
)


class Again:
    """An iterable that is no sequence and can be iterated again."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(N))


@pytest.fixture(scope="module")
def system() -> Iterator[ActorSystem]:
    with ActorSystem("ranges") as system:
        yield system


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Callable[[], Source[int, Any]]]:
    file: Path = tmp_path_factory.mktemp("lines") / "numbers"
    file.write_text("".join(f"{n}\n" for n in range(N)))
    return {
        "list": lambda: Source.from_iterable(list(range(N))),
        "re-iterable": lambda: Source.from_iterable(Again()),
        "range": lambda: Source.range(0, N),
        "lines": lambda: Source.from_lines(file).map(int),
    }


@pytest.mark.parametrize("kind", ["list", "re-iterable", "range", "lines"])
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEPS, max_size=5), ends=st.tuples(st.integers(0, N), st.integers(0, N)))
# the element behind the range was dropped, and the mark at the range's end was raised to the one behind that element
@example(steps=[filtered(0b111), Step("async_boundary", lambda source: source.async_boundary())], ends=(0, 3))
def test_a_repeated_range_has_the_rows_of_its_elements(
    sources: dict[str, Callable[[], Source[int, Any]]],
    system: ActorSystem,
    kind: str,
    steps: list[Step],
    ends: tuple[int, int],
) -> None:
    start, end = sorted(ends)
    source, inside, behind = sources[kind](), list(range(start, end)), list(range(end, N))
    for step in steps:
        source, inside, behind = step.stage(source), step.model(inside), step.model(behind)
    sink = source.to_mat(Sink.from_stage(RepeatingStage(start, end)), Keep.right).run(system)
    assert sink.result(30) == (inside, behind, N)
