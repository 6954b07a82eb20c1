"""Unzip and UnzipWith: each element is split into one part per output."""

from __future__ import annotations

import pytest

from streamactors import Broadcast, Flow, GraphDSL, Sink, Source, Unzip, UnzipWith, Zip
from streamactors.errors import BuildError
from tests.stages.test_fan_out_acceptance import fan_out
from tests.stages.test_fan_out_acceptance import system as system


class Boom(Exception):
    pass


def split(source, junction, system, outputs=2):
    """Run `source` through a junction into lists; return the outcome of each output: the list, or the error."""
    with GraphDSL() as g:
        fork = g.add(junction)
        sinks = [g.add(Sink.to_list(), keep=True) for _ in range(outputs)]
        source >> fork
        for i, sink in enumerate(sinks):
            fork.out(i) >> sink
    futures = g.to_runnable().run(system)
    return [future.exception(10) or future.result(10) for future in futures]


def test_unzip_sends_each_member_of_a_tuple_to_the_output_of_its_index(system):
    pairs = Source.range(1_000).map(lambda n: (n, str(n)))
    assert split(pairs, Unzip(), system) == [list(range(1_000)), [str(n) for n in range(1_000)]]


def test_unzip_of_three_outputs_splits_triples(system):
    triples = Source.from_iterable([(1, 2, 3), [4, 5, 6]])
    assert split(triples, Unzip(3), system, outputs=3) == [[1, 4], [2, 5], [3, 6]]


def test_unzip_with_splits_by_a_function(system):
    assert split(Source.range(10, 13), UnzipWith(lambda n: divmod(n, 5)), system) == [[2, 2, 2], [0, 1, 2]]


def test_what_zip_joins_unzip_splits(system):
    with GraphDSL() as g:
        fan, join, fork = g.add(Broadcast(2)), g.add(Zip()), g.add(Unzip())
        left, right = g.add(Sink.to_list(), keep=True), g.add(Sink.to_list(), keep=True)
        g.add(Source.range(500)) >> fan
        fan.out(0) >> join.in_(0)
        fan.out(1) >> Flow.map(lambda n: -n) >> join.in_(1)
        join >> fork
        fork.out(0) >> left
        fork.out(1) >> right
    numbers, negatives = (future.result(10) for future in g.to_runnable().run(system))
    assert numbers == list(range(500))
    assert negatives == [-n for n in range(500)]


def test_unzip_takes_no_more_than_the_slowest_output_asks_for(system):
    source, first, second = fan_out(Unzip(), system)
    first.request(5)
    first.expect_no_message("50ms")
    assert source.pending == 0
    second.request(2)
    source.send_next((1, "a"), (2, "b"))
    assert [first.expect_next(), first.expect_next()] == [1, 2]
    assert [second.expect_next(), second.expect_next()] == ["a", "b"]
    first.expect_no_message("50ms")
    assert source.pending == 0, "the first output still asks for three, the second for none"


def test_unzip_goes_on_for_the_other_output_when_one_cancels(system):
    source, first, second = fan_out(Unzip(), system)
    first.request(1)
    second.request(2)
    source.send_next((1, "a"))
    assert (first.expect_next(), second.expect_next()) == (1, "a")
    first.cancel()
    source.send_next((2, "b"))
    assert second.expect_next() == "b"
    second.cancel()
    source.expect_cancellation()


@pytest.mark.parametrize(
    ("junction", "name", "parts"), [(Unzip(), "unzip", 3), (UnzipWith(lambda row: row, 4), "unzip_with", 3)]
)
def test_an_element_of_another_length_fails_every_output_behind_what_came_before(system, junction, name, parts):
    outputs = 2 if name == "unzip" else 4
    good = tuple(range(outputs))
    source, *sinks = fan_out(junction, system, outlets=outputs)
    for sink in sinks:
        sink.request(5)
    source.send_next(good)
    source.send_next((1, 2, 3))
    for i, sink in enumerate(sinks):
        assert sink.expect_next() == i
        with pytest.raises(BuildError, match=f"{name} has {outputs} outputs, got {parts} parts"):
            raise sink.expect_error()


def test_a_function_that_raises_fails_every_output_and_names_the_element(system):
    def fn(n: int) -> tuple[int, int]:
        if n == 3:
            raise Boom
        return n, n

    errors = split(Source.range(10), UnzipWith(fn), system)
    assert errors[0] is errors[1]
    assert isinstance(errors[0], Boom)
    assert any("element 3" in note for note in errors[0].__notes__)


def test_what_is_no_number_of_outputs_or_no_function_is_refused():
    with pytest.raises(BuildError, match="UnzipWith: outputs must be at least 1, got 0"):
        Unzip(0)
    with pytest.raises(BuildError, match="UnzipWith expects"):
        UnzipWith(7)


def test_marks_pass_to_both_outputs_behind_the_elements_they_cover(system):
    done = []
    pairs = Source.from_iterable([(1, "a"), (2, "b"), (3, "c")]).with_replay(on_done=done.append)
    assert split(pairs, Unzip(), system) == [[1, 2, 3], ["a", "b", "c"]]
    assert done[-1] == 3
