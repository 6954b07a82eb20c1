"""`Cluster(brokers=3)`: three processes that elect their controller; the one that leads is killed, frozen and cut off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from streamactors.broker.cluster.several import default_controllers
from streamactors.broker.errors import BrokerError, BrokerStartError
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.folders.data_folder import DataFolder
from tests.broker.cluster.test_cluster_of_three import Load
from tests.broker.wire import wait_until

ALL = {1, 2, 3}


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def three(running: Cluster) -> Cluster:
    running.reset()
    return running


def next_controller(cluster: Cluster, before: int) -> int:
    """Wait until another node than `before` is the active controller."""
    found: list[int] = []

    def elected() -> bool:
        try:
            found[:] = [cluster.controller()]
        except (BrokerError, OSError):
            return False
        return found[0] != before

    wait_until(elected, "another node leads")
    return found[0]


def test_the_cluster_goes_on_without_the_node_of_its_controller(three: Cluster) -> None:
    before = three.controller()
    three.create_topic("before", partitions=3)
    three.kill(before)
    assert next_controller(three, before) in ALL - {before}
    three.create_topic("after")  # a topic needs a controller that can have its records committed
    three.await_isr("before", 0, ALL - {before}, timeout=30)
    three.start(before)
    three.await_isr("before", 0, ALL, timeout=30)
    three.await_isr("after", 0, timeout=30)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_controller_that_leads_a_partition_is_killed(three: Cluster) -> None:
    three.create_topic("orders", partitions=3)  # each node leads one
    with Load(three, "orders") as load:
        load.await_more()
        before = three.controller()
        three.kill(before)
        load.await_more()
        next_controller(three, before)
        three.start(before)
        load.await_more()
    assert load.failed == []
    assert three.acked_check(load.acked) == len(load.acked)


@pytest.mark.slow
def test_topics_that_were_acknowledged_survive_every_controller_in_turn(three: Cluster) -> None:
    made = []
    for turn in range(3):
        made.append(f"t{turn}")
        three.create_topic(made[-1])
        before = three.controller()
        three.kill(before)
        next_controller(three, before)
        three.start(before)
    seen = three._several()._view.topics()
    assert [each for each in seen if each in made] == made


def test_a_frozen_controller_is_replaced_and_follows_when_it_wakes(three: Cluster) -> None:
    before = three.controller()
    three.pause(before)
    after = next_controller(three, before)
    three.create_topic("meanwhile")
    three.resume(before)
    three.await_isr("meanwhile", 0, timeout=30)
    assert three.controller() == after


def test_a_controller_that_is_cut_off_gives_up_and_the_others_elect(three: Cluster) -> None:
    before = three.controller()
    three.partition({before}, ALL - {before})
    view = three._several()._view
    live = view._live
    view._live = lambda: [
        three._several().node(each).address for each in sorted(ALL - {before})
    ]  # the node that is cut off still serves clients, and knows no controller
    try:
        assert next_controller(three, before) != before
    finally:
        view._live = live
    three.heal()
    three.create_topic("healed")
    three.await_isr("healed", 0, timeout=30)


def test_two_of_three_are_lost_and_found_again(three: Cluster) -> None:
    three.create_topic("kept")
    one, two = sorted(ALL - {three.controller()})
    three.kill(one)
    three.kill(two)
    with pytest.raises((BrokerError, OSError, TimeoutError)):
        three.await_isr("kept", 0, {three.leader("kept")}, timeout=0.0)  # nobody can shrink the ISR without a majority
    three._several()._start_all()
    three.await_isr("kept", 0, timeout=30)
    three.create_topic("more")


@pytest.mark.slow
def test_the_cluster_starts_again_on_its_folders(tmp_path: Path) -> None:
    for turn in range(2):
        with Cluster(brokers=3, data=tmp_path) as cluster:
            cluster.create_topic(f"t{turn}")
            seen = [each for each in cluster._several()._view.topics() if not each.startswith("__")]
            assert seen == [f"t{each}" for each in range(turn + 1)]


def test_more_controllers_than_brokers_are_refused() -> None:
    with pytest.raises(BrokerStartError, match="some of the brokers are the controllers"):
        Cluster(brokers=3, controllers=4)


def test_the_first_node_may_die_and_links_may_be_cut(three: Cluster) -> None:
    three.create_topic("orders")
    three.kill(1)
    three.partition({2}, {3})
    three.heal()
    three.await_isr("orders", 0, {2, 3}, timeout=20)


@pytest.mark.slow
def test_a_folder_keeps_the_number_of_controllers_with_which_it_began(tmp_path: Path) -> None:
    # with three controllers the two that have no copy of the metadata could elect one of them
    with Cluster(brokers=3, controllers=1, data=tmp_path) as cluster:
        cluster.create_topic("kept")
    with pytest.raises(BrokerStartError, match="the cluster in this folder has controllers=1"):
        Cluster(brokers=3, controllers=3, data=tmp_path).start()
    with Cluster(brokers=3, data=tmp_path) as cluster:
        assert cluster.controller() == 1
        assert "kept" in cluster._several()._view.topics()


def test_the_folder_of_a_single_broker_is_refused(tmp_path: Path) -> None:
    # A new cluster without the broker's topics was made among its partitions.
    with Cluster(data=tmp_path) as single:
        single.create_topic("kept")
    with pytest.raises(BrokerStartError, match="this is the data folder of a single broker; choose another folder"):
        Cluster(brokers=3, data=tmp_path).start()
    assert not (tmp_path / "1").exists()


def test_a_delay_below_zero_is_refused(three: Cluster) -> None:
    with pytest.raises(BrokerStartError, match=r"slow\(1, ms=-3\): the delay is 0 ms or more"):
        three.slow(1, ms=-3)


def test_two_brokers_have_one_controller() -> None:
    assert (default_controllers(2), default_controllers(3), default_controllers(5)) == (1, 3, 3)


def test_a_new_controller_notices_that_a_broker_died_with_the_controller_before() -> None:
    # The heartbeat connections of a dead node end at the controller, which died with it. The next controller waited for the session timeout:
    # 2.6 s in a Cluster until the partitions of that node had another leader.
    with Cluster(brokers=3, config={"broker.session.timeout.ms": 600_000}) as cluster:
        both = cluster.controller()
        cluster.create_topic("t", partitions=3)
        partition = next(each for each in range(3) if cluster.leader("t", each) == both)
        cluster.kill(both)
        next_controller(cluster, both)
        cluster.await_isr("t", partition, ALL - {both}, timeout=60)
        assert cluster.leader("t", partition) in ALL - {both}


@pytest.mark.expects_exit_code(2)
def test_a_start_fails_with_the_error_of_the_node_that_cannot_start(tmp_path: Path) -> None:
    # A second cluster on a folder, one of whose nodes had been killed, found node 1 free and the folders of the others in use. It waited for node 1,
    # which waited for votes, and after half a minute it said only that node 1 was not ready.
    used = [DataFolder(Disk(), tmp_path / str(node_id)) for node_id in (2, 3)]
    for each in used:
        each.path.mkdir()
        each.lock()
    try:
        with pytest.raises(BrokerStartError, match=r"data folder .*/[23] is in use by another broker"):
            Cluster(brokers=3, data=tmp_path).start()
    finally:
        for each in used:
            each.unlock()


@pytest.mark.slow
@pytest.mark.parametrize("controllers", [3, 1])
def test_a_node_of_a_cluster_does_not_start_alone(tmp_path: Path, controllers: int) -> None:
    # `streamactors broker --data cluster/1` elected itself, in a later epoch than that of the other two. When the cluster was started again, the others
    # followed: the topics that they had acknowledged while node 1 was down were deleted, or node 1 did not start any more.
    with Cluster(brokers=3, controllers=controllers, data=tmp_path) as cluster:
        cluster.create_topic("kept")
    for node_id in (1, 2) if controllers == 3 else (2,):
        with pytest.raises(BrokerStartError, match=rf"of node {node_id} in a cluster with other controllers \([12]"):
            Cluster(data=tmp_path / str(node_id)).start()
