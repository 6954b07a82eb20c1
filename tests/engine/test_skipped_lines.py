"""The log of dropped elements: a line a second for each place that raises, however many elements it drops."""

from __future__ import annotations

import pytest

from streamactors import Sink, Source
from streamactors.actors.system import ActorSystem


def test_elements_that_fail_alike_are_logged_once_and_each_place_that_raises_has_its_line(
    actor_system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    def odd(n: int) -> int:
        if n % 2:
            raise ValueError(f"{n} is odd")
        return n

    source = Source.range(1_000).map(odd).map(lambda n: n // (n % 4)).on_error_continue()
    assert source.run_with(Sink.count(), actor_system).result(30) == 250
    assert [message.partition(";")[0] for message in caplog.messages] == [
        "skipped: ZeroDivisionError: integer division or modulo by zero",
        "skipped: ValueError: 1 is odd",
    ]
