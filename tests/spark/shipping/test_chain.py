"""The chunks that a chain of stages gives in a worker, whether a generated loop or the engine runs it. No Spark runs here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import reactivex.operators as rx

from streamactors import Flow, Sink, Source
from streamactors.engine.planning.plan import flat_of
from streamactors.spark.shipping.chain import GATHERED, ChainSegment, gathered, links_of

N = 1_000


async def itself(element: int) -> int:
    return element


STEPS = {
    "map": Flow.map(lambda n: n),
    "map_concat": Flow.map_concat(lambda n: [n]),
    "map_async": Flow.map_async(4, itself),
    "rx": Flow.rx(rx.map(lambda n: n)),
    "map_concat behind a map": Flow.map(lambda n: n).map_concat(lambda n: [n]),
}


def segment(flow: Any, *, remembers: bool = False) -> ChainSegment:
    nodes = flat_of(Source.from_iterable([]).via(flow).to(Sink.ignore()).module).nodes[1:-1]
    return ChainSegment(tuple(links_of(nodes, "a test", may_remember=remembers)), remembers)


@pytest.mark.parametrize("step", STEPS)
def test_a_chunk_stays_a_chunk(step: str) -> None:
    """The engine gave chunks of 16 elements, or of 4 behind map_async(4), and each write to a topic takes milliseconds."""
    chunks = [list(range(N)), list(range(N, 2 * N))]
    assert list(segment(STEPS[step]).chunks(chunks)) == chunks


def test_a_chunk_that_becomes_many_elements_is_given_in_parts() -> None:
    flow = Flow.map_concat(lambda n: range(10))
    sizes = [len(chunk) for chunk in segment(flow).chunks([list(range(N))])]
    assert sum(sizes) == 10 * N
    assert GATHERED <= min(sizes[:-1]) <= max(sizes) < 2 * GATHERED


def test_a_chain_that_remembers_gives_chunks_across_the_ones_it_takes() -> None:
    found = list(segment(Flow.grouped(2), remembers=True).chunks([n] for n in range(6)))
    assert found == [[[0, 1], [2, 3], [4, 5]]]


def test_the_elements_before_an_error_are_given() -> None:
    results = segment(Flow.map_concat(lambda n: [10 // (3 - n)])).chunks([[0, 1, 2, 3, 4]])
    assert next(results) == [3, 5, 10]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_record_batches_are_not_held() -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1, 2]})
    taken: list[int] = []

    def chunks() -> Iterator[list[Any]]:
        for i in range(2):
            taken.append(i)
            yield [batch]

    assert next(gathered(chunks())) == [batch]
    assert taken == [0]
