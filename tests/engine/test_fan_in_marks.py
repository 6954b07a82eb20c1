"""The marks of a fan-in: positions pass as the minimum over the open inlets that carry the partition, signals when all of these showed them."""

from __future__ import annotations

import random

import pytest

from streamactors.engine.marks.marks import (
    NOWHERE,
    Assigned,
    EndOfInput,
    FanInMarks,
    Idle,
    Key,
    Mark,
    Position,
    Revoked,
    Signal,
)

KEY: Key = ("s", 0)
S, T = frozenset(("s",)), frozenset(("t",))


@pytest.mark.parametrize("signal", [EndOfInput(KEY), Revoked(KEY, 1), Idle(KEY, 5, 7)])
def test_a_signal_passes_when_every_inlet_that_carries_its_partition_has_shown_it(signal: Signal) -> None:
    marks = FanInMarks([S, S, T, S])
    assert marks.on_mark(0, signal) == []
    assert marks.on_mark(0, signal) == []
    assert marks.on_mark(3, signal) == []
    assert marks.on_mark(1, signal) == [signal]


def test_an_assignment_passes_with_the_first_inlet_that_shows_it() -> None:
    marks, signal = FanInMarks([S, S]), Assigned(KEY, 1)
    assert marks.on_mark(1, signal) == [signal]
    assert marks.on_mark(1, signal) == []
    assert marks.on_mark(0, signal) == []


@pytest.mark.parametrize("signal", [EndOfInput(KEY), Revoked(KEY, 1), Idle(KEY, 5, 7)])
def test_an_inlet_that_ends_holds_no_signal_back(signal: Signal) -> None:
    marks = FanInMarks([S, S])
    marks.on_mark(0, signal)
    assert marks.on_inlet_closed(1) == [signal]


def test_a_signal_that_comes_again_passes_again_when_all_have_shown_it_again() -> None:
    marks, signal = FanInMarks([S, S]), Idle(KEY, 5, 7)
    marks.on_mark(0, signal)
    assert marks.on_mark(1, signal) == [signal]
    assert marks.on_mark(0, signal) == []
    assert marks.on_mark(1, signal) == [signal]


def test_the_last_inlet_that_ends_gives_its_last_position_once() -> None:
    marks = FanInMarks([S, S])
    marks.on_mark(0, {KEY: (1, 5)})
    marks.on_mark(1, {KEY: (1, 9)})
    assert marks.on_inlet_closed(0) == [{KEY: (1, 9)}]
    assert marks.on_inlet_closed(1) == []


@pytest.mark.parametrize("seed", range(300))
def test_a_fan_in_passes_what_a_model_of_all_inlets_passes(seed: int) -> None:
    """The model computes, after each event, the minimum over all open inlets that carry a key, and which signals all of them have shown."""
    rng = random.Random(seed)
    carriers = [rng.choice((S, T, S | T)) for _ in range(rng.randint(1, 4))]
    marks = FanInMarks(carriers)
    open_inlets = set(range(len(carriers)))
    seen: list[dict[Key, Position]] = [{} for _ in carriers]
    shown: dict[Signal, set[int]] = {}
    passed: dict[Key, Position] = {}
    expected: dict[Key, Position] = {}
    for _ in range(80):
        inlet = rng.choice(sorted(open_inlets))
        key = (rng.choice(sorted(carriers[inlet])), rng.randint(0, 1))
        closes = rng.random() < 0.05
        due: list[Signal] = []
        if closes:
            found = marks.on_inlet_closed(inlet)
            open_inlets.discard(inlet)
        elif rng.random() < 0.3:
            signal = rng.choice((EndOfInput(key), Revoked(key, 1), Idle(key), Assigned(key, 1)))
            first = signal not in shown
            shown.setdefault(signal, set()).add(inlet)
            found = marks.on_mark(inlet, signal)
            if isinstance(signal, Assigned) and first:
                due.append(signal)
        else:
            place = max(seen[inlet].get(key, NOWHERE), (1, rng.randint(0, 30)))
            seen[inlet][key] = place
            found = marks.on_mark(inlet, {key: place})
        for signal, inlets in list(shown.items()):
            waiting = {i for i in open_inlets if signal.key[0] in carriers[i]} - inlets
            if open_inlets and not waiting:
                due += [signal] * (not isinstance(signal, Assigned))
                del shown[signal]
        for key in {key for each in seen for key in each}:
            places = [seen[i].get(key) for i in open_inlets if key[0] in carriers[i]]
            if None not in places:
                if places:
                    expected[key] = max(expected.get(key, NOWHERE), min(place for place in places if place))
                elif closes and key in seen[inlet]:
                    expected[key] = max(expected.get(key, NOWHERE), seen[inlet][key])
        positions: list[Mark] = [mark for mark in found if isinstance(mark, dict)]
        for mark in positions:
            assert isinstance(mark, dict)
            assert all(place > passed.get(key, NOWHERE) for key, place in mark.items()), "each position passes once"
            passed |= mark
        assert passed == expected
        assert sorted(map(repr, due)) == sorted(repr(mark) for mark in found if isinstance(mark, Signal))
        if not open_inlets:
            break
