"""The state as JSON, its schema, and the last ten minutes of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, Sink, Source
from streamactors.dashboard import schema
from streamactors.dashboard.history import History
from streamactors.dashboard.model import (
    ConsumerState,
    DeadLetter,
    DeadLettersState,
    PartitionState,
    ProcessState,
    State,
    encoded,
)
from streamactors.dashboard.sampling import Sampler

PROCESS = ProcessState("p", 1, "h", 0, "3.11", "0")
VALIDATOR = jsonschema.Draft202012Validator(json.loads(schema.FILE.read_bytes()))


def test_the_file_is_the_schema_of_the_model() -> None:
    assert schema.FILE.read_text(encoding="utf-8") == schema.text(), "make docs"
    jsonschema.Draft202012Validator.check_schema(schema.schema())


def test_the_state_of_a_running_system_is_valid() -> None:
    with ActorSystem("valid") as system:
        Source.range(10**9).map(lambda x: x).async_boundary().to(Sink.ignore()).run(system)
        sampler = Sampler(system)
        at_ms, frame = sampler.last
    state = json.loads(frame)
    VALIDATOR.validate(state)
    assert state["at_ms"] == at_ms
    assert state["graphs"][0]["stages"]


def test_a_state_that_lacks_a_field_is_not_valid() -> None:
    state = json.loads(encoded(State(1, PROCESS)))
    del state["process"]["pid"]
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(state)


@given(st.text(max_size=50), st.floats())
@settings(max_examples=200)
def test_any_text_and_any_number_is_valid_json_of_one_line(text: str, number: float) -> None:
    text += "\ud800\n\r\u2028</script>"
    state = State(
        1,
        PROCESS,
        consumers=(
            ConsumerState(text, text, text, partitions=(PartitionState(text, 0, per_s=0.0, lag_seconds=number),)),
        ),
        dead_letters=(DeadLettersState(text, 1, (DeadLetter(text, text),)),),
    )
    frame = encoded(state)
    assert b"\n" not in frame
    assert b"\r" not in frame
    VALIDATOR.validate(json.loads(frame.decode("utf-8")))


def state_of(number: int) -> bytes:
    return encoded(replace(State(number, PROCESS), stalls=(str(number) * 100,)))


def test_history_returns_the_last_frame_of_that_moment_or_before() -> None:
    history = History()
    assert history.at(5) is None
    for at in (10, 20, 30):
        history.add(at, state_of(at))
    history.add(30, state_of(31))
    assert history.moments() == [10, 20, 30]
    found: list[Any] = [json.loads(history.at(at) or b"")["at_ms"] for at in (1, 10, 19, 20, 99)]
    assert found == [10, 10, 10, 20, 30]


@given(st.lists(st.integers(1, 2_000), min_size=1, max_size=300), st.integers(1, 50), st.integers(200, 20_000))
def test_history_is_bounded_in_count_and_bytes(sizes: list[int], most: int, most_bytes: int) -> None:
    import random

    history = History(most, most_bytes)
    for at, size in enumerate(sizes):
        history.add(at, random.Random(at).randbytes(size))  # cannot be compressed
        assert len(history.moments()) <= most
        assert history.size <= most_bytes or len(history.moments()) == 1
        assert history.moments()[-1] == at, "the newest is always there"


def test_history_that_needs_too_many_bytes_gets_coarser_not_shorter() -> None:
    import random

    history = History(600, 100_000)
    for at in range(600):
        history.add(at, random.Random(at).randbytes(1_000))
    moments = history.moments()
    assert moments[0] < 60
    assert len(moments) > 60
