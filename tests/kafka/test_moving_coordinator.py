"""A coordinator that moves while it is asked where the partitions of a consumer begin."""

from __future__ import annotations

import pytest

from streamactors import Sink
from streamactors.broker.apis import api09_offset_fetch
from streamactors.broker.errors import ErrorCode
from streamactors.kafka import Consumer, Subscriptions
from tests.kafka._members import WAYS, member_settings


@pytest.fixture
def moves(settings, monkeypatch):
    """The group's coordinator refuses the first eight questions for its offsets; return them."""
    answer, refused = api09_offset_fetch._group, []

    def moving(request, asked, fetched):
        if asked.group_id == settings.group_id and len(refused) < 8:
            refused.append(asked.group_id)
            return api09_offset_fetch._failed(asked.group_id, None, ErrorCode.NOT_COORDINATOR)
        return answer(request, asked, fetched)

    monkeypatch.setattr(api09_offset_fetch, "_group", moving)
    return refused


# librdkafka asks a new coordinator three times within half a second, reports an error, and never fetches these partitions
@pytest.mark.expects_log("the group's coordinator is moving")
def test_assigned_partitions_begin_although_their_coordinator_moved(settings, system, topic_with, moves):
    topic = topic_with("coordinator-moves", [b"x"] * 20, 2)
    source = Consumer.source(settings, Subscriptions.assignment((topic, 0), (topic, 1)), until="end")
    assert len(source.run_with(Sink.to_list(), system).result(60)) == 20
    assert len(moves) == 8


@pytest.mark.expects_log("the group's coordinator is moving")
@pytest.mark.parametrize("strategy", WAYS)
def test_a_member_reads_although_its_coordinator_moved(settings, system, topic_with, moves, strategy):
    topic = topic_with(f"moves-{strategy}", [b"x"] * 20, 2)
    source = Consumer.source(member_settings(settings, strategy), Subscriptions.topics(topic), until="end")
    assert len(source.run_with(Sink.to_list(), system).result(60)) == 20
    assert len(moves) == 8
