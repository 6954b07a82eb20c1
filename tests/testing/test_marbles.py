"""Marble tests: the language, and streams over virtual time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors import Flow, Source
from streamactors.testing import Marbles
from streamactors.testing.marble_text import Marble, parse, render


@pytest.fixture(scope="module")
def marbles():
    with Marbles() as marbles:
        yield marbles


def test_a_text_says_what_happens_in_which_frame():
    assert parse("-a (bc)-|") == [
        Marble(1, "element", "a"),
        Marble(2, "element", "b"),
        Marble(2, "element", "c"),
        Marble(4, "|"),
    ]
    error = ValueError("x")
    assert parse("1#", {"1": 1}, error) == [Marble(0, "element", 1), Marble(1, "#", error)]
    assert parse("(a|)") == [Marble(0, "element", "a"), Marble(0, "|")]
    assert parse("---") == []


@pytest.mark.parametrize("text", ["a|b", "(a", "a)", "((a))", "(a-b)", "a|)", "(a|b)", "#-"])
def test_a_text_that_is_no_marbles_is_refused_with_its_place(text):
    with pytest.raises(ValueError, match="marbles"):
        parse(text)


FRAMES = st.lists(st.sampled_from(["-", "a", "(bc)", "x"]), max_size=9)


@given(frames=FRAMES, end=st.sampled_from(["|", "#", "(a|)"]))
def test_what_is_rendered_parses_to_the_same(frames, end):
    text = "".join(frames) + end
    events = parse(text)
    assert parse(render(events)) == events


@given(frames=FRAMES, end=st.sampled_from(["|", "#", "(a|)"]))
def test_a_source_emits_its_marbles(marbles, frames, end):
    text = "".join(frames) + end
    assert parse(marbles.run(marbles.source(text))) == parse(text)


def test_timers_count_in_frames(marbles):
    marbles.expect(marbles.source("-a-b|").delay("30ms"), "----a-(b|)")
    marbles.expect(marbles.source("ab---c|").debounce("20ms"), "---b--(c|)")
    marbles.expect(Source.tick("20ms", "20ms", "t").take(2), "--t-(t|)")
    marbles.expect(marbles.source("a").idle_timeout("50ms").map_error(lambda _: marbles.error), "a----#")


def test_values_and_errors(marbles):
    numbers = {"a": 1, "b": 2, "x": 10, "y": 20}
    marbles.expect(marbles.source("a-b|", numbers).map(lambda n: n * 10), "x-y|", numbers)
    marbles.expect(marbles.source("-a#"), "-a#")
    marbles.expect(marbles.source("-#", error=ValueError("v")), "-#", error=ValueError("v"))


def test_several_sources_begin_together(marbles):
    left, right = marbles.source("a---b|"), marbles.source("--x---y|")
    marbles.expect(left.merge(right), "a-x-b-y|")
    marbles.expect(left.zip(right), "--p---(q|)", {"p": ("a", "x"), "q": ("b", "y")})
    marbles.expect(
        left.switch_map(lambda name: marbles.source("123|").map(lambda n: name + n)),
        "pqr-stu|",
        {"p": "a1", "q": "a2", "r": "a3", "s": "b1", "t": "b2", "u": "b3"},
    )


def test_demand_can_be_written_too(marbles):
    source = marbles.source("abcd|").via(Flow.conflate(lambda a, b: a + b))
    found = marbles.run(source, demand="1----1")
    assert found == "a----(<bcd>|)"


def test_a_difference_shows_both(marbles):
    with pytest.raises(AssertionError, match=r"expected a-b\|\n +got ab\|"):
        marbles.expect(marbles.source("ab|"), "a-b|")


def test_an_endless_stream_is_compared_up_to_the_last_frame(marbles):
    marbles.expect(Source.tick(0, "20ms", "t"), "t-t-t")
    marbles.expect(Source.never(), "---")
