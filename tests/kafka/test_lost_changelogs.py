"""A group that has committed rows and whose changelogs are gone counts from nothing; the log says so, and how the counts become right again."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from streamactors import ActorSystem
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.settings import ClientSettings
from streamactors.windows import State
from tests.kafka._windows import (  # noqa: F401  # fixtures
    changelog_of,
    counted,
    produce,
    windows_producer,
    windows_settings,
    written,
)

SAID = "state begins empty although rows were committed before it"


@pytest.fixture(params=["memory", "disk"])
def kept(request, settings, tmp_path):
    return (
        settings
        if request.param == "memory"
        else replace(settings, state=State.on_disk(tmp_path / "state", cache="16MB"))
    )


def run_until_committed(kept, transactional, topic, count, wait_for, committed):
    with ActorSystem("lost") as system:
        control, done = written(counted(kept, topic, until=None), f"{topic}-out", transactional).run(system)
        wait_for(lambda: committed(topic) == {0: count})
        control.shutdown().result(30)
        done.result(30)


def test_a_deleted_changelog_of_a_committed_group_is_named_with_the_way_out(
    cluster, kept, settings, transactional, committed, wait_for, caplog, request, tmp_path
):
    topic = f"lost-{request.node.callspec.id}"
    cluster.create_topic(f"{topic}-out", partitions=1)
    produce(cluster, topic, [(0, "a", 10_000), (0, "a", 10_400)], 1)
    with caplog.at_level(logging.WARNING, "streamactors.kafka"):
        run_until_committed(kept, transactional, topic, 2, wait_for, committed)
        produce(cluster, topic, [(0, "a", 10_500)], 1)
        run_until_committed(kept, transactional, topic, 3, wait_for, committed)
        assert SAID not in caplog.text, "neither a first start nor a restart loses state"
        Admin(ClientSettings(cluster.bootstrap_servers)).delete(changelog_of(settings))
        wait_for(
            lambda: (
                changelog_of(settings)
                not in {t.name for t in Admin(ClientSettings(cluster.bootstrap_servers)).topics()}
            )
        )
        produce(cluster, topic, [(0, "a", 10_600)], 1)
        run_until_committed(kept, transactional, topic, 4, wait_for, committed)
    (said,) = [record.getMessage() for record in caplog.records if SAID in record.getMessage()]
    assert said.startswith(
        f"{settings.group_id}: {SAID}: {topic}-0@3, and the changelogs {changelog_of(settings)} have never had an entry."
    )
    assert f"streamactors groups reset-offsets {settings.group_id} --topic {topic} --to earliest" in said
