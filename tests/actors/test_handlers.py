"""Looking up handlers by type: the same outcome as Thespian's own walk, done once per pair of classes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thespian.actors import Actor, ActorTypeDispatcher

from streamactors.actors.running import handlers
from streamactors.actors.running.handlers import behaviour_of


class M0: ...


class M1(M0): ...


class M2(M1): ...


class Unrelated: ...


MESSAGES = (M0, M1, M2, Unrelated)
SUPER = ActorTypeDispatcher.SUPER


def actor_class(parts: list[dict[str, bool]], unrecognized: bool) -> type[Actor]:
    """A chain of classes; each part says which handlers it has and whether they pass on."""
    owner: type[Actor] = ActorTypeDispatcher
    for number, part in enumerate(parts):

        def make(name: str, number: int, passes_on: bool) -> Any:
            def handle(self: Any, message: Any, sender: Any) -> object:
                self.calls.append((number, name, type(message).__name__, sender))
                return SUPER if passes_on else number

            return handle

        body = {f"receiveMsg_{name}": make(name, number, passes_on) for name, passes_on in part.items()}
        owner = type(f"A{number}", (owner,), body)
    if unrecognized:
        owner = type("Last", (owner,), {"receiveUnrecognizedMessage": lambda self, m, s: self.calls.append("unknown")})
    return owner


@given(
    parts=st.lists(
        st.dictionaries(st.sampled_from(["M0", "M1", "M2", "object"]), st.booleans()), min_size=1, max_size=3
    ),
    unrecognized=st.booleans(),
    messages=st.lists(st.sampled_from(MESSAGES), min_size=1, max_size=6),
)
def test_the_outcome_is_thespians(parts: list[dict[str, bool]], unrecognized: bool, messages: list[type]) -> None:
    kind = actor_class(parts, unrecognized)
    ours, theirs = kind(), kind()
    ours.calls, theirs.calls = [], []
    behaviour = behaviour_of(ours)
    for number, message_class in enumerate(messages):
        message = message_class()
        assert behaviour(message, number) == ActorTypeDispatcher.receiveMessage(theirs, message, number)
    assert ours.calls == theirs.calls


def test_handlers_are_looked_up_once_per_class_not_per_message(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups: list[tuple[type, type]] = []
    find = handlers._find_handlers

    def counting(actor_type: type, message_type: type) -> Any:
        lookups.append((actor_type, message_type))
        return find(actor_type, message_type)

    monkeypatch.setattr(handlers, "_find_handlers", counting)
    kind = actor_class([{"M0": False}], False)
    actors = [kind() for _ in range(3)]
    for actor, message_class in itertools.product(actors, (M0, M1, M0, M1)):
        actor.calls = []
        behaviour_of(actor)(message_class(), None)
    assert lookups == [(kind, M0), (kind, M1)]


def test_a_receive_message_of_ones_own_is_left_alone() -> None:
    class Own(ActorTypeDispatcher):
        def receiveMessage(self, message: Any, sender: Any) -> Any:
            return super().receiveMessage(message, sender) or "own"

        def receiveMsg_M0(self, message: M0, sender: Any) -> None: ...

    assert behaviour_of(Own())(M0(), None) == "own"


def test_a_receive_message_set_on_the_instance_is_used() -> None:
    actor = ActorTypeDispatcher()
    actor.receiveMessage = lambda message, sender: (message, sender)
    assert behaviour_of(actor)(1, 2) == (1, 2)
