"""The kind of mistake in a pipeline, where the events of a run tell it.

Owner: the story. Each rule is a pure function of the events; the first that finds something speaks. A record is known to an effect if the pipeline gave it,
or if the effect's key is the record's id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from streamactors.simulation.face.case import Broken
from streamactors.simulation.world.events import Event

Place = tuple[str, int, int]


class Mistake(NamedTuple):
    """A kind of mistake and the sentence that shows it. `at_us`: the moment of the wrong step."""

    kind: str
    text: str
    at_us: int


def mistake_of(events: Sequence[Event], broken: Broken) -> Mistake | None:
    """Return the first mistake that a rule finds, None if none does."""
    for rule in RULES:
        found = rule(events)
        if found is not None:
            return found
    return _of_check(events, broken)


def committed_before_effect(events: Sequence[Event]) -> Mistake | None:
    """An offset was committed while a record below it had no effect, and the effect came later or not at all."""
    done = _first_effects(events)
    failed = _by_record(events, lambda outcome: outcome == "failed before")
    places = {*done, *failed}
    number = {id(event): at for at, event in enumerate(events)}  # several events may share a moment
    for event, place in _committed(events, {topic for topic, _, _ in places}, places):
        effect = done.get(place)
        if effect is not None and number[id(effect)] < number[id(event)]:
            continue
        group, offset = event.facts["group"], event.facts["offset"]
        told = f"group {group} committed {place[0]}-{place[1]} up to {offset} at {_s(event)}"
        if effect is not None:
            text = f"the offset was committed before the effect: {told}; the effect of record {_at(place)} came at {_s(effect)}"
            return Mistake("committed before the effect", text, event.at_us)
        fault = failed.get(place)
        if fault is not None and number[id(fault)] < number[id(event)]:
            text = (
                f"a call that failed was taken for done: {fault.facts['call']} of {fault.facts['store']} failed for record {_at(place)} "
                f"at {_s(fault)} and was not tried again; {told}"
            )
            return Mistake("an ignored failure", text, fault.at_us)
    return None


def committed_without_effect(events: Sequence[Event]) -> Mistake | None:
    """An offset was committed, and a record below it never had an effect, though its neighbours had."""
    done = _first_effects(events)
    topics = {topic for topic, _, _ in done}
    sent = {place for place in _produced(events) if place[0] in topics}
    for event, place in _committed(events, topics, sent):
        if place not in done:
            text = (
                f"record {_at(place)} never had its effect, and group {event.facts['group']} committed it at {_s(event)}: whoever had it "
                "then lost it (at most once)"
            )
            return Mistake("committed without an effect", text, event.at_us)
    return None


def plain_write_twice(events: Sequence[Event]) -> Mistake | None:
    """The same key was inserted twice: a plain write under at-least-once delivery."""
    first: dict[tuple[Any, str], Event] = {}
    for event in events:
        if not _is_effect(event) or event.facts["call"] != "insert" or event.facts["outcome"] == "failed before":
            continue
        key = (event.facts["store"], repr(event.facts["key"]))
        before = first.setdefault(key, event)
        if before is event:
            continue
        store, name = event.facts["store"], event.facts["key"]
        why = _between(events, before, event)
        text = (
            f"{store} got {name!r} twice by insert, at {_s(before)} from {_who(before)} and at {_s(event)} from {_who(event)}{why}; a record may "
            "come again, so write it by its key (upsert), or in one transaction with its offset"
        )
        return Mistake("a plain write in an at-least-once pipeline", text, event.at_us)
    return None


def out_of_order(events: Sequence[Event]) -> Mistake | None:
    """One instance has an effect of a later record of a partition before that of an earlier one, which comes for the first time."""
    newest: dict[tuple[str, str, int], tuple[int, Event]] = {}
    seen: set[Place] = set()
    for event in events:
        if event.kind in ("assigned", "start"):
            newest.clear()
        place = event.facts.get("record") if _is_effect(event) else None
        if not isinstance(place, tuple) or event.facts["outcome"] == "failed before":
            continue
        topic, partition, offset = place
        of = (event.instance, topic, partition)
        highest, later = newest.get(of, (-1, event))
        if offset < highest and place not in seen:
            text = (
                f"the effect of record {_at((topic, partition, highest))} came at {_s(later)}, before that of record {_at(place)} at {_s(event)}: "
                "a stage of instance "
                f"{event.instance} lets elements overtake each other"
            )
            return Mistake("order lost in the pipeline", text, later.at_us)
        seen.add(place)
        newest[of] = max((highest, later), (offset, event), key=lambda pair: pair[0])
    return None


def sink_outside_of_the_transaction(events: Sequence[Event]) -> Mistake | None:
    """An instance wrote one topic in transactions and another one beside them."""
    inside: dict[str, Event] = {}
    for event in events:
        if event.kind == "produced" and event.facts["transactional_id"]:
            inside.setdefault(str(event.facts["topic"]), event)
    sent = {str(event.facts["topic"]) for event in events if event.kind == "produced"} - set(inside)
    sources = {str(event.facts["topic"]) for event in events if event.kind == "commit"}
    for event in events:
        topic = str(event.facts["topic"]) if event.kind == "produced" else ""
        if inside and topic in sent - sources and event.at_us > min(each.at_us for each in inside.values()):
            text = (
                f"{topic} is written without a transactional id (first seen at {_s(event)}), while {', '.join(sorted(inside))} is written in "
                "transactions: what an aborted transaction repeats is twice there"
            )
            return Mistake("a sink outside of the transaction", text, event.at_us)
    return None


def _of_check(events: Sequence[Event], broken: Broken) -> Mistake | None:
    """Return what the broken check itself says of the mistake."""
    if broken.check.startswith("committed_at_most_done"):
        last = next((event for event in reversed(events) if event.kind == "commit"), None)
        at_us = broken.at_us if last is None else last.at_us
        return Mistake("committed before the effect", broken.text, at_us)
    if broken.check.startswith("order_per_key"):
        return Mistake(
            "order lost in the pipeline", f"{broken.text}: a stage lets elements overtake each other", broken.at_us
        )
    if broken.check.startswith("drains_within"):
        return Mistake("an instance that does not drain", broken.text, broken.at_us)
    return None


RULES: tuple[Callable[[Sequence[Event]], Mistake | None], ...] = (
    committed_before_effect,
    plain_write_twice,
    sink_outside_of_the_transaction,
    out_of_order,
    committed_without_effect,
)
"""In the order in which they are asked: the surest first."""


def _is_effect(event: Event) -> bool:
    return event.kind == "effect"


def _first_effects(events: Sequence[Event]) -> dict[Place, Event]:
    """Return by record the first effect that was done."""
    return _by_record(events, lambda outcome: outcome != "failed before")


def _by_record(events: Sequence[Event], wanted: Callable[[object], bool]) -> dict[Place, Event]:
    """Return by record its first effect with a wanted outcome."""
    found: dict[Place, Event] = {}
    for event in events:
        place = event.facts.get("record") if _is_effect(event) else None
        if isinstance(place, tuple) and wanted(event.facts["outcome"]):
            found.setdefault(place, event)
    return found


def _committed(events: Sequence[Event], topics: set[str], places: set[Place]) -> Iterator[tuple[Event, Place]]:
    """Yield each commit with each record that it covers for the first time."""
    upto: dict[tuple[Any, Any, Any], int] = {}
    for event in events:
        if event.kind != "commit" or event.facts["topic"] not in topics:
            continue
        topic, partition, offset = event.facts["topic"], event.facts["partition"], event.facts["offset"]
        of = (event.facts["group"], topic, partition)
        assert isinstance(offset, int)
        for each in range(upto.get(of, 0), offset):
            place = (str(topic), int(str(partition)), each)
            if place in places:
                yield event, place
        upto[of] = max(upto.get(of, 0), offset)


def _produced(events: Sequence[Event]) -> Iterator[Place]:
    for event in events:
        if event.kind == "produced":
            topic, partition = str(event.facts["topic"]), int(str(event.facts["partition"]))
            for each in range(int(str(event.facts["first"])), int(str(event.facts["last"])) + 1):
                yield topic, partition, each


def _between(events: Sequence[Event], one: Event, other: Event) -> str:
    """Return what happened between two effects that explains the second, with ", after " before it; "" if nothing does."""
    begin = next(at for at, event in enumerate(events) if event is one)
    end = next(at for at, event in enumerate(events) if event is other)
    for event in reversed(events[begin:end]):
        if event.kind == "crash":
            return f", after the crash of instance {event.facts['of']}"
        if event.kind == "strike":
            return f", after this: {event.facts['text']}"
    return ""


def _who(event: Event) -> str:
    return f"instance {event.instance}" if event.instance else "outside"


def _at(place: Place) -> str:
    return f"{place[0]}-{place[1]}@{place[2]}"


def _s(event: Event) -> str:
    return f"{event.at_us / 1e6:.3f} s"
