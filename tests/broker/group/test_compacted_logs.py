"""A coordinator reads its log while the cleaner works on it: it sees the records of the beginning, misses some of the middle, and finds the same groups.

A record goes when a later one has its key, so a member may seem to own what it gave away before another member got it. A tombstone may come for what
was never seen, and goes too when nothing before it is left. Other brokers did not load such logs: KAFKA-17306, KAFKA-19862, KAFKA-21117."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from streamactors.broker.group.classic.classic_group import Group, GroupRules
from streamactors.broker.group.consumer import consumer_record
from streamactors.broker.group.consumer.consumer_group import ConsumerGroup
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.group.group_record import KEY_VERSION, encode_group_key, encode_group_value
from streamactors.broker.group.record_folds import FOLDS
from streamactors.broker.group.streams import streams_record
from streamactors.broker.group.streams.streams_events import StreamsRules
from tests.broker.group.consumer.test_consumer_machine import history as consumer_history
from tests.broker.group.streams.simulated_streams import App, World

Stored = tuple[int, bytes, bytes | None]


def replayed(log: Sequence[Stored]) -> dict[str, CoordinatedGroup]:
    groups: dict[str, CoordinatedGroup] = {}
    for kind, key, value in log:
        FOLDS[kind](groups, key, value, GroupRules())
    return groups


def cleaned(log: Sequence[Stored], dice: Random) -> list[Stored]:
    """Return what a reader of the log sees if the cleaner has been between two places of it meanwhile."""
    begin = dice.choice((0, 0, dice.randrange(len(log))))
    end = dice.randint(begin, len(log))
    last = {key: place for place, (_, key, _) in enumerate(log[:end])}
    without_tombstones = begin == 0 and dice.random() < 0.5
    return [
        record
        for place, record in enumerate(log)
        if not (
            begin <= place < end
            and dice.random() < 0.9  # a segment is cleaned, or not yet
            and (place < last[record[1]] or (without_tombstones and record[2] is None and _all_gone(log, place, begin)))
        )
    ]


def _all_gone(log: Sequence[Stored], place: int, begin: int) -> bool:
    """Whether no record of the key is before the tombstone: only then may it go."""
    return begin == 0 and not any(key == log[place][1] for _, key, _ in log[:place])


def consumers(seed: int) -> list[Stored]:
    encode: Callable[[Any], Any] = consumer_record.encode
    return [(each.kind, *encode(each)) for each in consumer_history(seed, 60).log]


def streams(seed: int) -> list[Stored]:
    dice = Random(seed)
    world = World(StreamsRules(standby_replicas=dice.choice([0, 1]), initial_rebalance_delay_ms=0))
    apps = [App(world, f"m{n}", f"p{n % 3}", f"i{n}" if n == 0 else None) for n in range(5)]
    for _ in range(60):
        app, chance = dice.choice(apps), dice.random()
        if chance < 0.8:
            app.beat(works=dice.random() < 0.7, lost=dice.random() < 0.1)
        elif chance < 0.9:
            app.leave(-2 if app.instance_id and dice.random() < 0.5 else -1)
        else:
            world.pass_time(dice.choice([1_000, 20_000]))
    return [(each.kind, *streams_record.encode(each)) for each in world.log]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [consumers, streams])
def test_a_log_that_is_cleaned_while_it_is_read_gives_the_same_group(kind: Callable[[int], list[Stored]]) -> None:
    for seed in range(40):
        log = kind(seed)
        wanted = replayed(log)
        dice = Random(seed)
        for _ in range(25):
            found = replayed(cleaned(log, dice))
            for name, group in wanted.items():
                assert _comparable(found[name]) == _comparable(group), seed
            assert found.keys() == wanted.keys()


@pytest.mark.parametrize("seed", range(10))
def test_a_group_that_changed_its_protocol_has_the_one_of_its_last_records(seed: int) -> None:
    """Records of the protocol before are there without the tombstones that ended it, or the tombstones come late."""
    classic: Stored = (KEY_VERSION, encode_group_key("g"), encode_group_value(Group("g", GroupRules()), {}))
    modern = consumers(seed)
    gone = list({key: (kind, key, None) for kind, key, _ in modern}.values())
    found = replayed([classic, *modern])["g"]
    assert isinstance(found, ConsumerGroup)
    assert _comparable(found) == _comparable(replayed(modern)["g"])
    for log in ([*modern, classic], [*modern, *gone, classic], [*modern, classic, *gone], [*gone, classic, *gone]):
        assert isinstance(replayed(log)["g"], Group)


def _comparable(group: CoordinatedGroup) -> Any:
    """Return a group without what is only a guess at the size of Apache Kafka's hash table."""
    if isinstance(group, ConsumerGroup):
        return {
            name: getattr(group, name) for name in ("members", "targets", "owners", "epoch", "regexes", "static_ids")
        }
    return group
