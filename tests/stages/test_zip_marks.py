"""Zip of two inputs that both carry marks."""

from __future__ import annotations

import pytest

from streamactors import Sink, Source


@pytest.mark.parametrize("n", [1, 2, 4, 7])
def test_a_mark_before_one_input_does_not_hide_the_elements_behind_it(actor_system, n):
    # Both inputs ran: element, mark, element, …; where the mark of one stood in front while the other showed an element, zip
    # asked for more without asking to be shown what lay ready, and both waited for ever.
    left, right = [], []
    source = Source.range(n).with_replay(on_done=left.append).zip(Source.range(n).with_replay(on_done=right.append))
    result = source.async_boundary().async_boundary(2).run_with(Sink.to_list(), actor_system)
    assert result.result(5) == [(i, i) for i in range(n)]
    assert left[-1] == right[-1] == n
