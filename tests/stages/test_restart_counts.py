"""Which restarts are in a row: a part that took long to fail and did nothing does not begin the count again. Under virtual time."""

from __future__ import annotations

import asyncio

import pytest

from streamactors import Flow, RestartFlow, RestartSettings, RestartSink, RestartSource, Sink, Source
from streamactors.errors import StreamActorsError
from tests.stages.restarting import Factory, start, virtual_time  # noqa: F401

pytestmark = pytest.mark.expects_log("restart_")

SETTINGS = RestartSettings("200ms", "10s", random_factor=0, max_restarts=3)
"""An attempt to connect takes 2 s, which is longer than the first back-off."""


async def connect(_: object) -> object:
    await asyncio.sleep(2)
    raise ConnectionError("refused")


@pytest.mark.parametrize("kind", ["source", "flow", "sink"])
def test_attempts_that_last_longer_than_the_first_back_off_are_counted(actor_system, clock, kind) -> None:
    attempts = []

    def part():
        attempts.append(clock.now_ms())
        connecting = Flow.map_async(1, connect)
        return {
            "source": lambda: Source.single(1).via(connecting),
            "flow": lambda: connecting,
            "sink": lambda: connecting.to(Sink.ignore()),
        }[kind]()

    if kind == "source":
        done = RestartSource.on_failures_with_backoff(SETTINGS, part).run_with(Sink.ignore(), actor_system)
    elif kind == "flow":
        given = Source.repeat(1).via(RestartFlow.on_failures_with_backoff(SETTINGS, part))
        done = given.run_with(Sink.ignore(), actor_system)
    else:
        done = Source.repeat(1).watch_termination().to(RestartSink.with_backoff(SETTINGS, part)).run(actor_system)
    clock.advance("1m")
    assert len(attempts) == 4
    if kind != "sink":
        assert isinstance(done.exception(30), ConnectionError)


def test_a_source_that_was_silent_for_longer_than_the_longest_back_off_begins_the_count_again(
    actor_system, clock
) -> None:
    silent = Source.never().idle_timeout("11s")
    make = Factory(silent)
    sink = start(actor_system, RestartSource.on_failures_with_backoff(SETTINGS, make))
    sink.request(1)
    clock.advance("2m")
    assert make.made > 8
    sink.cancel()


def test_a_sink_that_worked_begins_the_count_again(actor_system, clock) -> None:
    made = []

    def part():
        made.append(True)

        async def store(n):
            await asyncio.sleep(0.1)
            if n % 40 == 39:
                raise ConnectionError("gone")
            return n

        return Flow.map_async(1, store).to(Sink.ignore())

    Source.range(0, 1_000).to(RestartSink.with_backoff(SETTINGS, part)).run(actor_system)
    clock.advance("1m")
    assert len(made) > 8


def test_an_error_from_before_the_start_never_begins_the_count_again(actor_system, clock) -> None:
    class Unreachable(StreamActorsError):
        at_start = True

    async def find(_: object) -> object:
        await asyncio.sleep(30)
        raise Unreachable("nobody answers")

    make = Factory(Source.single(1).map_async(1, find))
    done = RestartSource.on_failures_with_backoff(SETTINGS, make).run_with(Sink.ignore(), actor_system)
    clock.advance("5m")
    assert make.made == 4
    assert isinstance(done.exception(30), Unreachable)
