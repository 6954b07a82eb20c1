"""The probe of a sink: what each expectation returns, and that it fails for anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors import ActorSystem, Keep
from streamactors.testing import TestSink, TestSource
from streamactors.testing.signals import OnComplete
from streamactors.testing.sink_probe import _equal

pytestmark = pytest.mark.usefixtures("virtual_clock")  # silence costs no time, and means that all is at rest


def sent(system: ActorSystem, *elements: Any, end: Any = None) -> Any:
    """Return the probe of a sink that has these elements before it, and then the end: True or an error."""
    source, sink = TestSource.probe("5s").to_mat(TestSink.probe("5s"), Keep.both).run(system)
    sink.request(9)
    source.send_next(*elements)
    if end is True:
        source.send_complete()
    elif end is not None:
        source.send_error(end)
    return sink


def test_elements_are_expected_by_number_by_value_and_in_any_order(actor_system: ActorSystem) -> None:
    sink = sent(actor_system, 1, 2, 3, 4, 5, 6)
    assert sink.expect_next_n(2) == [1, 2]
    assert sink.expect_next_n([3]) is sink
    assert sink.expect_next_n([]) is sink
    assert sink.expect_next_n(0) == []
    assert sink.expect_next_unordered(5, 4) is sink
    assert sink.expect_next_where(lambda n: n > 5) == 6
    sink.cancel()


def test_an_answer_of_a_function_is_returned(actor_system: ActorSystem) -> None:
    sink = sent(actor_system, 1, 0)
    assert sink.expect_next_pf(lambda n: [n]) == [1]
    assert sink.expect_next_pf(lambda n: n) == 0, "0 is an answer; None and False are none"
    sink.cancel()


def test_an_element_or_an_end_is_returned(actor_system: ActorSystem) -> None:
    error = ValueError("no more")
    sink = sent(actor_system, 1, 2, end=True)
    assert sink.expect_next_or_complete() == 1
    assert sink.expect_next_or_error(2) == 2
    assert isinstance(sink.expect_next_or_complete(3), OnComplete)
    sink = sent(actor_system, end=error)
    assert sink.expect_next_or_error(error=error) is error
    assert sent(actor_system, end=error).expect_next_or_error() is error
    assert sent(actor_system, end=error).expect_subscription_and_error(ValueError) is error
    assert sent(actor_system, end=True).expect_subscription_and_complete() is not None


def test_elements_are_received_while_they_fit_and_the_next_one_stays(actor_system: ActorSystem) -> None:
    sink = sent(actor_system, 1, 2, 3, 4, 5, end=True)
    assert sink.receive_while(lambda n: n < 9, messages=2) == [1, 2]
    assert sink.receive_while(lambda n: n < 4) == [3]
    assert sink.receive_while(lambda n: n < 4) == []
    assert sink.receive_within("5s", messages=1) == [4]
    assert sink.receive_within("5s", messages=0) == []
    assert sink.receive_within("5s") == [5], "ends with the end, which stays for the next call"
    sink.expect_complete()


def test_receiving_ends_when_nothing_comes(actor_system: ActorSystem) -> None:
    sink = sent(actor_system, 1)
    assert sink.receive_while(lambda n: True, idle="20ms") == [1]
    assert sink.receive_within("20ms") == []
    sink.cancel()


def test_all_is_requested_until_the_end(actor_system: ActorSystem) -> None:
    assert sent(actor_system, 1, 2, end=True).to_strict() == [1, 2]
    with pytest.raises(ValueError, match="no more"):
        sent(actor_system, 1, end=ValueError("no more")).to_strict()


ERROR = ValueError("no more")
WRONG: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...], Any, str]] = {
    # the expectation, the elements, the end, and what is said
    "fewer elements": (lambda s: s.expect_next_n(2), (1,), True, "element 2 of 2"),
    "another element": (lambda s: s.expect_next(2), (1,), None, "element 2"),
    "none of these": (lambda s: s.expect_next_unordered(1, 2), (1, 3), None, r"one of \[2\]"),
    "one of these twice": (lambda s: s.expect_next_unordered(1, 2), (1, 1), None, r"one of \[2\]"),
    "not accepted": (lambda s: s.expect_next_where(str.isdigit), ("x",), None, "that isdigit accepts"),
    "no answer": (lambda s: s.expect_next_pf(lambda n: None), (1,), None, "got 1: None"),
    "the answer False": (lambda s: s.expect_next_pf(lambda n: False), (1,), None, "got 1: False"),
    "a function that raises": (lambda s: s.expect_next_pf(lambda n: 1 // n), (0,), None, "got 0: ZeroDivisionError"),
    "an element for an end": (lambda s: s.expect_complete(), (1,), None, "completion"),
    "a failure for an end": (lambda s: s.expect_complete(), (), ERROR, "completion"),
    "an element for a failure": (lambda s: s.expect_error(), (1,), None, "a failure"),
    "another failure": (lambda s: s.expect_error(KeyError), (), ERROR, "failure with a KeyError"),
    "the failure of another": (lambda s: s.expect_error(ValueError("other")), (), ERROR, "failure with ValueError"),
    "an end for an element or a failure": (lambda s: s.expect_next_or_error(), (), True, "an element or a failure"),
    "another element or a failure": (lambda s: s.expect_next_or_error(2), (1,), None, "element 2"),
    "an element or another failure": (lambda s: s.expect_next_or_error(error=KeyError()), (), ERROR, "KeyError"),
    "a failure for an element or an end": (
        lambda s: s.expect_next_or_complete(),
        (),
        ERROR,
        "an element or completion",
    ),
    "another element or an end": (lambda s: s.expect_next_or_complete(2), (1,), None, "element 2"),
    "a message": (lambda s: s.expect_no_message("20ms"), (1,), None, "no"),
    "an element without a request": (lambda s: s.expect_subscription_and_complete(), (1,), None, "completion"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_was_not_expected_fails_and_is_shown(actor_system: ActorSystem, case: str) -> None:
    expect, elements, end, said = WRONG[case]
    sink = sent(actor_system, *elements, end=end)
    with pytest.raises(AssertionError, match=said):
        expect(sink)
    sink.cancel()


def test_arrays_are_equal_when_all_their_elements_are() -> None:
    np = pytest.importorskip("numpy")
    assert _equal(np.array([1, 2]), np.array([1, 2]))
    assert not _equal(np.array([1, 2]), np.array([1, 3]))
    assert _equal([1], [1])
    assert not _equal([1], [2])
