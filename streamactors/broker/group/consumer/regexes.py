"""Subscriptions by regular expression: when they are resolved, and what follows from it.

Owner: the state machine of consumer groups; pure but for `resolve`, which runs RE2 over the names of all topics on a helper thread. Python's `re` is
never used: an expression of a client could take it forever. Source: KIP-848; Apache Kafka's TopicRegexResolver, which uses RE2/J."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.consumer.consumer_events import REGEX_PAUSE_MS, Around, Decision
from streamactors.broker.group.consumer.consumer_group import ConsumerGroup, ConsumerMember, ResolvedRegex
from streamactors.broker.group.consumer.consumer_record import REGEX, ConsumerRecord
from streamactors.broker.group.consumer.record_of import epoch_record, regex_record
from streamactors.broker.group.metadata_hash import metadata_hash
from streamactors.broker.group.stored_times import interval_is_over
from streamactors.broker.re2_patterns import InvalidPattern, compiled


class RegexChange(Enum):
    """What a heartbeat did to a member's regular expression."""

    NONE = 0
    UPDATED = 1  # it is another one, and not resolved yet
    RESOLVED = 2  # it is another one that is resolved, or it was given up


def regex_change(
    group: ConsumerGroup, before: ConsumerMember, member: ConsumerMember, around: Around, decision: Decision
) -> RegexChange:
    """Note a changed regular expression, and ask for the resolution of the group's expressions if it is due. Raises Refusal."""
    old, new = before.regex, member.regex
    change, must_resolve = RegexChange.NONE, False
    if old != new:
        change = RegexChange.UPDATED
        if old and group.subscribed_regexes[old] == 1:
            decision.records.append(ConsumerRecord(REGEX, group.group_id, old))
        if new and not group.subscribed_regexes[new]:
            check_regex(new)
            must_resolve = True
        elif (new and new in group.regexes) or (old and not new):
            change = RegexChange.RESOLVED
    if (must_resolve or group.subscribed_regexes) and not around.is_resolving:
        decision.resolve = _due(group, old, new, around, must_resolve)
    return change


def _due(group: ConsumerGroup, old: str | None, new: str | None, around: Around, must_resolve: bool) -> frozenset[str]:
    """Return the expressions that are to be resolved now."""
    first = next(iter(group.regexes.values()), None)
    resolved_ms = None if first is None else first.time_ms
    if resolved_ms is not None and not interval_is_over(resolved_ms, REGEX_PAUSE_MS + 1, around.now_ms):
        return frozenset()
    counts = Counter(group.subscribed_regexes)
    if old:
        counts[old] -= 1
    if new:
        counts[new] += 1
    wanted = frozenset(regex for regex, count in counts.items() if count > 0)
    due = (
        must_resolve
        or len(wanted) != len(group.regexes)
        or (0 if first is None else first.version) < around.newest_topics
        or resolved_ms is None
        or interval_is_over(resolved_ms, around.rules.regex_refresh_interval_ms + 1, around.now_ms)
    )
    return wanted if due else frozenset()


def resolved(group: ConsumerGroup, found: Mapping[str, ResolvedRegex], around: Around) -> Decision:
    """Take what the expressions matched. The group gets a new epoch if its topics have changed."""
    decision = Decision(is_checked=group.is_checked)
    matched = Counter(topic for each in group.regexes.values() for topic in each.topics)
    changed = False
    for regex, new in found.items():
        if not group.subscribed_regexes[regex]:
            continue  # nobody subscribes to it any more
        old = group.regexes.get(regex, ResolvedRegex())
        if old.topics != new.topics:
            changed = True
            matched.subtract(old.topics)
            matched.update(new.topics)
        decision.records.append(regex_record(group.group_id, regex, new))
    topics = {*group.named_topics, *(+matched)}
    now_hash = metadata_hash(around.image, topics)
    if changed or now_hash != group.metadata_hash:
        decision.records.append(epoch_record(group.group_id, group.epoch + 1, now_hash))
        decision.is_checked = True
    return decision


def check_regex(regex: str) -> None:
    """Raise INVALID_REGULAR_EXPRESSION unless RE2 accepts an expression."""
    try:
        compiled(regex)
    except InvalidPattern as error:
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from error


def resolve(
    regexes: Collection[str],
    topics: Iterable[str],
    may_describe: Callable[[str], bool],
    version: int,
    now_ms: int,
) -> dict[str, ResolvedRegex]:
    """Return the topics that each expression matches, and that the member which asks may describe."""
    matched: dict[str, set[str]] = {regex: set() for regex in regexes}
    programs = [(regex, compiled(regex)) for regex in regexes]
    allowed: dict[str, bool] = {}
    for topic in topics:
        for regex, program in programs:
            if program.fullmatch(topic):
                if topic not in allowed:
                    allowed[topic] = may_describe(topic)
                if allowed[topic]:
                    matched[regex].add(topic)
    return {regex: ResolvedRegex(frozenset(found), version, now_ms) for regex, found in matched.items()}
