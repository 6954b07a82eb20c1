"""What a group subscribes to after one of its members has changed.

Owner: the state machine of consumer groups. Pure. Source: Apache Kafka's ConsumerGroup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from streamactors.broker.group.consumer.consumer_group import ConsumerGroup, ConsumerMember


class Subscriptions(NamedTuple):
    """Topics by how many members name them, and by how many regular expressions match them; regular expressions by members."""

    named: Counter[str]
    matched: Counter[str]
    regexes: Counter[str]

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(self.named) | frozenset(self.matched)

    def are_equal(self, members: int) -> bool:
        """Whether all of so many members subscribe to the same topics, the same way."""
        if not self.regexes:
            return all(self.named[topic] == members for topic in self.topics)
        if next(iter(self.regexes.values())) != members:
            return False
        return not self.named and all(count == 1 for count in self.matched.values())


def are_equal_now(group: ConsumerGroup) -> bool:
    """Whether all members subscribe to the same topics, the same way. Most heartbeats change nothing, so nothing is copied."""
    regexes = group.subscribed_regexes
    found = Subscriptions(group.named_topics, _matched(group) if group.regexes else Counter(), regexes)
    return found.are_equal(len(group.members))


def subscriptions_after(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember) -> Subscriptions:
    """Return the subscriptions when `before` has become `after`."""
    found = _present(group)
    _change(found.named, before.topics, -1)
    _change(found.named, after.topics, 1)
    if before.regex != after.regex:
        if before.regex and found.regexes[before.regex] == 1 and before.regex in group.regexes:
            _change(found.matched, group.regexes[before.regex].topics, -1)
        _change(found.regexes, [before.regex] if before.regex else (), -1)
        _change(found.regexes, [after.regex] if after.regex else (), 1)
    return found


def subscriptions_without(
    group: ConsumerGroup, gone: Iterable[ConsumerMember], regexes: Iterable[str]
) -> Subscriptions:
    """Return the subscriptions when members and regular expressions are gone."""
    found = _present(group)
    for member in gone:
        _change(found.named, member.topics, -1)
    for regex in regexes:
        if regex in group.regexes:
            _change(found.matched, group.regexes[regex].topics, -1)
    return found


def _present(group: ConsumerGroup) -> Subscriptions:
    return Subscriptions(Counter(group.named_topics), _matched(group), Counter(group.subscribed_regexes))


def _matched(group: ConsumerGroup) -> Counter[str]:
    return Counter(topic for each in group.regexes.values() for topic in each.topics)


def _change(counts: Counter[str], keys: Iterable[str], by: int) -> None:
    for key in keys:
        counts[key] += by
        if counts[key] <= 0:
            del counts[key]
