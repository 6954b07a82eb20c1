"""keyed on a source over Kafka: its states are in a changelog, committed with the results, and the next run continues with them."""

from __future__ import annotations

from streamactors import ActorSystem, Keep
from streamactors.kafka import Consumer, ProducerRecord, Subscriptions, Transactional
from tests.kafka._windows import changelog_of, produce, windows_producer, windows_settings  # noqa: F401  # fixtures


def counting(state, row):
    return state + 1, [state + 1]


def test_the_states_of_a_source_are_restored_by_the_next_run(
    cluster, settings, transactional, read_all, committed, wait_for
):
    cluster.create_topic("keyed-out", partitions=2)
    produce(cluster, "keyed-in", [], 2)
    given = 0
    for rows in ([(0, "a", 1), (1, "b", 2), (0, "a", 3)], [(0, "a", 4), (1, "b", 5)]):
        produce(cluster, "keyed-in", rows, 2)
        given += len(rows)
        with ActorSystem("keyed") as system:
            source = Consumer.records(settings, Subscriptions.topics("keyed-in"), key="string", until=None)
            counts = source.keyed(counting, initial=0, name="counts").map(
                lambda row: ProducerRecord("keyed-out", b"%d" % row.value, row.key, row.context.partition)
            )
            control, done = counts.to_mat(Transactional.sink(transactional), Keep.both).run(system)
            wait_for(lambda: sum(committed("keyed-in", 2).values()) == given)  # noqa: B023
            control.shutdown().result(30)
            done.result(30)
    found = sorted((m.key().decode(), int(m.value())) for m in read_all("keyed-out", 2))
    assert found == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)]
    assert read_all(changelog_of(settings, "counts"), 2), "the states are in a changelog topic"
