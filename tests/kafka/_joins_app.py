"""A child process: a member of a group with state on disk that joins streams and a table; killed by the tests at random.

It writes all results in the transaction of its state, and says "row" for each result."""

from __future__ import annotations

import sys
from typing import Any

from streamactors import ActorSystem
from streamactors.kafka import Consumer, ConsumerSettings, ProducerSettings
from streamactors.windows import JoinWindows, Record, State


def main(bootstrap: str, group: str, member: str, state: str, standbys: str) -> None:
    """`standbys`: "0" or "1". With a standby the membership is not static, so each kill and each start moves tasks between the members."""
    static = {} if standbys == "1" else {"group.instance.id": member}
    consumer = ConsumerSettings(
        bootstrap,
        group,
        "earliest",
        properties={"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300, **static},
        max_poll_records=100,
        revoke_timeout_ms=40_000,  # nobody starts a member again whose last commit of a partition took too long beside other load
    )
    producer = ProducerSettings(bootstrap, transactional_id=f"{group}-{member}", commit_interval_ms=50)
    topics = Consumer.topics(
        consumer, producer=producer, state=State.on_disk(state, cache="16MB", standbys=int(standbys))
    )
    orders = topics.stream(f"{group}-orders", value="json")
    payments = topics.stream(f"{group}-payments", value="json")
    people = topics.table(f"{group}-people", value="json", name="people")

    def tell(record: Record) -> Any:
        print("row", flush=True)
        return record

    known = orders.join_table(people, lambda order, city: [order, city], how="left", name="known")
    known.peek(tell).to(f"{group}-known", value="json")
    windows = JoinWindows.of(400).with_grace("1h")
    orders.join(payments, lambda order, payment: [order, payment], windows, name="paid").to(
        f"{group}-paid", value="json"
    )
    known.select_key(lambda record: record.value[1] or "nowhere").group_by_key().count(name="cities").to(
        f"{group}-cities", value="json"
    )
    with ActorSystem(member) as system:
        topics.graph().run(system).is_shutdown.result()


if __name__ == "__main__":
    main(*sys.argv[1:])
