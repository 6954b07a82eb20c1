"""The marks of a stage whose elements leave in another order: a mark passes when all elements before it have left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamactors.engine.marks.marks import EndOfInput, Epochs, Mark


def mark(number: int) -> Mark:
    return {("s", number): (1, number)}


@given(st.lists(st.one_of(st.just("enter"), st.just("mark"), st.integers(0, 30)), max_size=60))
def test_a_mark_passes_when_all_before_it_have_left_and_never_before(steps: list[str | int]) -> None:
    epochs, inside, passed, arrived = Epochs(), [], [], 0
    for step in steps:
        if step == "enter":
            inside.append((epochs.enter(), arrived))
        elif step == "mark":
            arrived += 1
            passed += epochs.mark(mark(arrived))
        elif inside:
            token, _ = inside.pop(int(step) % len(inside))
            passed += epochs.leave(token)
        oldest = min((before for _, before in inside), default=arrived)
        assert passed == [mark(number) for number in range(1, oldest + 1)]


def test_elements_that_leave_after_all_marks_were_given_count_no_more() -> None:
    # The observables of an RxPY operator are disposed after its pipeline has ended and released its marks.
    epochs = Epochs()
    tokens = []
    for number in range(3):
        tokens.append(epochs.enter())
        assert epochs.mark(mark(number)) == []
    assert epochs.all() == [mark(0), mark(1), mark(2)]
    again = epochs.enter()
    assert epochs.mark(EndOfInput("s")) == []
    for token in tokens:
        assert epochs.leave(token) == []
    assert epochs.leave(again) == [EndOfInput("s")]
