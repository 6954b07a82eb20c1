"""Topics with different numbers of partitions in one topology: only topics whose rows meet need equal numbers."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import ActorSystem, Keep, Sink
from streamactors.kafka import Consumer
from streamactors.kafka.errors import TopicError
from streamactors.windows import RestoreError, State


@pytest.fixture
def write(cluster):
    """write(topic, {key: value}): the rows of a topic, each in the partition of its key."""
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2_random"})

    def write(topic, rows):
        for at, (key, value) in enumerate(rows):
            producer.produce(topic, key=key, value=json.dumps(value).encode(), timestamp=1_000 + at)
        producer.flush()

    return write


@pytest.fixture
def newest(read_all):
    """The last value of each key of a topic with one partition, and the number of its rows."""

    def read(topic):
        rows = read_all(topic, 1)
        return {each.key().decode(): json.loads(each.value()) for each in rows}, len(rows)

    return read


def joining(settings):
    """Orders (5 partitions) meet people (2) under another key, and items (4) meet owners (3) by a foreign key."""
    topics, at = Consumer.topics(settings), settings.group_id
    orders = topics.stream(f"{at}-orders", value="json")
    people = topics.table(f"{at}-people", value="json", name="people")
    by_person = orders.select_key(lambda row: row.value["by"])
    by_person.join_table(people, lambda order, person: [order["n"], person], name="known").to(
        f"{at}-known", value="json"
    )
    items, owners = topics.table(f"{at}-items", value="json"), topics.table(f"{at}-owners", value="json")
    items.join_foreign_key(owners, lambda key, item: item, lambda item, owner: [item, owner], name="owned").to(
        f"{at}-owned", value="json"
    )
    return topics.graph()


@pytest.mark.parametrize("state", ["memory", "disk"])
def test_rows_meet_across_topics_of_different_numbers_of_partitions(
    cluster, settings, write, newest, read_all, wait_for, tmp_path, state
):
    for topic, partitions in {"orders": 5, "people": 2, "items": 4, "owners": 3, "known": 1, "owned": 1}.items():
        cluster.create_topic(f"{state}-{topic}", partitions=partitions)
    settings = settings.with_group_id(state)
    if state == "disk":
        settings = settings.with_state(State.on_disk(tmp_path, cache="16MB"))
    write(f"{state}-people", [(f"p{n}", f"name{n}") for n in range(9)])
    write(f"{state}-owners", [(f"w{n}", f"owner{n}") for n in range(7)])
    owned = {f"i{n}": [f"w{n % 7}", f"owner{n % 7}"] for n in range(20)}
    with ActorSystem("first") as system:
        control = joining(settings).run(system)
        write(f"{state}-items", [(f"i{n}", f"w{n % 7}") for n in range(20)])
        wait_for(lambda: newest(f"{state}-owned")[0] == owned)
        control.shutdown().result(30)
    write(f"{state}-orders", [(f"o{n}", {"n": n, "by": f"p{n % 9}"}) for n in range(36)])
    write(f"{state}-owners", [("w3", "another")])
    owned |= {f"i{n}": ["w3", "another"] for n in (3, 10, 17)}
    with ActorSystem("second") as system:  # each part's state comes from its changelogs
        control = joining(settings).run(system)
        wait_for(lambda: len(read_all(f"{state}-known", 1)) >= 36)
        wait_for(lambda: newest(f"{state}-owned")[0] == owned)
        control.shutdown().result(30)
    known = sorted(json.loads(each.value()) for each in read_all(f"{state}-known", 1))
    assert known == [[n, f"name{n % 9}"] for n in range(36)]


def test_tasks_of_separate_sub_topologies_move_on_their_own(cluster, settings, write, newest, wait_for, tmp_path):
    # Of four partitions a member of two gets two, of three partitions two or one: partition 2 of both topics goes to different members.
    for topic, partitions in {"four": 4, "three": 3, "fours": 1, "threes": 1}.items():
        cluster.create_topic(topic, partitions=partitions)
    keys = 40
    rows = [(f"k{n}", n) for n in range(keys)]

    def counting(place):
        topics = Consumer.topics(settings.with_state(State.on_disk(tmp_path / place, cache="16MB")))
        for topic in ("four", "three"):
            counts = topics.stream(topic, value="json").group_by_key().count(name=f"of-{topic}")
            counts.to_stream().to(f"{topic}s", value="json")
        return topics.graph()

    def counted(times):
        for topic in ("fours", "threes"):
            wait_for(lambda topic=topic: newest(topic) == ({f"k{n}": times for n in range(keys)}, times * keys))

    with ActorSystem("one") as one:
        first = counting("one").run(one)
        for topic in ("four", "three"):
            write(topic, rows)
        counted(1)
        with ActorSystem("two") as two:
            second = counting("two").run(two)

            def shares():
                return [set(each.snapshot()["partitions"]) for each in (first, second)]

            # of partitions that move neither member may have one for a moment
            wait_for(lambda: all(shares()) and len(set.union(*shares())) == 4 + 3)
            for topic in ("four", "three"):
                write(topic, rows)
            counted(2)
            second.shutdown().result(30)
        for topic in ("four", "three"):
            write(topic, rows)
        counted(3)
        first.shutdown().result(30)


def test_merged_streams_of_different_numbers_of_partitions_before_a_state_are_refused(cluster, settings, system):
    cluster.create_topic("wide", partitions=3)
    cluster.create_topic("narrow", partitions=2)
    topics = Consumer.topics(settings)
    counts = topics.stream("wide").merge(topics.stream("narrow")).group_by_key().count()
    with pytest.raises(
        TopicError, match=r"narrow has 2 partitions, wide has 3 partitions.*\.repartition\(\) after the merge"
    ):
        topics.source(counts).to(Sink.ignore()).run(system)


@pytest.mark.parametrize("state", ["memory", "disk"])
def test_merged_streams_of_different_numbers_of_partitions_meet_in_a_repartition_topic(
    cluster, settings, write, newest, wait_for, tmp_path, state
):
    """The way out of the refusal: no step before the repartition topic keeps a state. A second instance takes some of the partitions."""
    settings = settings.with_group_id(f"merging-{state}")
    broad, slim, merged_to, counted = (f"{state}-{name}" for name in ("broad", "slim", "merged", "counts"))
    for topic, partitions in {broad: 5, slim: 2, merged_to: 1, counted: 1}.items():
        cluster.create_topic(topic, partitions=partitions)

    def counting(instance):
        place = settings.with_state(State.on_disk(tmp_path / instance)) if state == "disk" else settings
        topics = Consumer.topics(place)
        merged = topics.stream(broad, value="json").merge(topics.stream(slim, value="json"))
        merged.to(merged_to, value="json")
        merged.repartition(name="all").group_by_key().count(name="n").to_stream().to(counted, value="json")
        return topics.graph()

    rows = [(f"k{n}", n) for n in range(20)]
    with ActorSystem("one") as one:
        first = counting("one").run(one)
        write(broad, rows)
        write(slim, rows)
        wait_for(lambda: newest(counted) == ({f"k{n}": 2 for n in range(20)}, 40))
        with ActorSystem("two") as two:
            second = counting("two").run(two)
            wait_for(lambda: second.snapshot()["partitions"] and first.snapshot()["partitions"])
            write(broad, rows)
            write(slim, rows)
            wait_for(lambda: newest(counted) == ({f"k{n}": 4 for n in range(20)}, 80))
            second.shutdown().result(30)
        write(broad, rows)
        wait_for(lambda: newest(counted) == ({f"k{n}": 5 for n in range(20)}, 100))
        first.shutdown().result(30)
    assert newest(merged_to)[1] == 100


def test_a_step_of_a_topology_without_a_name_whose_number_has_changed_is_refused(cluster, settings, write, system):
    """Formerly only windows of a stream were recognised by their changelogs; a topology went on with an empty table."""
    cluster.create_topic("unnamed", partitions=1)
    write("unnamed", [("a", 1)])

    def run(build):
        topics = Consumer.topics(settings.with_group_id("unnamed-steps"), until="end")
        control, done = topics.source(build(topics.stream("unnamed"))).to_mat(Sink.to_list(), Keep.both).run(system)
        found = [row.value for row in done.result(30)]
        control.is_shutdown.result(30)
        return found

    assert run(lambda rows: rows.group_by_key().count()) == [1]
    write("unnamed", [("a", 1)])
    with pytest.raises(
        RestoreError, match=r"count-0000000001-changelog, and the step is now .*count-0000000002-changelog.*name"
    ):
        run(lambda rows: rows.filter(lambda row: True).group_by_key().count())
    assert run(lambda rows: rows.group_by_key().count()) == [2]
