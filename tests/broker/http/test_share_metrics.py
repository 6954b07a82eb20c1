"""Share groups in the metrics of the broker that leads their partitions."""

from __future__ import annotations

from pathlib import Path

from streamactors.broker.http.broker_metrics import sample
from tests.broker.apis.share_member import ACCEPT, REJECT, ShareMember
from tests.broker.apis.test_share_dead_letters import SETTINGS, append, configure, letters, prepare, topic_id
from tests.broker.live_broker import LiveBroker
from tests.broker.wire import wait_until


def shown(live: LiveBroker) -> dict[str, dict[tuple[str, ...], float]]:
    found = live.on_data_plane(lambda: sample(live.node))
    return {family.name: dict(samples) for family, samples in found if "_share_" in family.name}


def test_locks_lag_and_dead_letters_of_share_groups_are_counted(tmp_path: Path) -> None:
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        prepare(live)
        configure(live)
        append(live, *(b"%d" % each for each in range(10)))
        one = ShareMember(live.client(), topic_id(live))
        assert one.take(max_records=6, strict=True) == [(0, 5, 1)]
        assert one.acknowledge((0, 2, ACCEPT), (4, 4, REJECT)).error_code == 0
        letters(live, 1)
        place = ("g", "t", "0")
        # The rejected record is archived, too.
        wait_until(lambda: shown(live)["streamactors_broker_share_group_lag"][place] == 6)
        assert shown(live) == {
            "streamactors_broker_share_group_sessions": {(): 1},
            "streamactors_broker_share_group_locked_records": {place: 2},
            "streamactors_broker_share_group_lag": {place: 6},
            "streamactors_broker_share_group_dead_letters_total": {("g",): 1},
            "streamactors_broker_share_group_dead_letter_failures_total": {},
        }
