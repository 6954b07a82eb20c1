"""Pipelines of users, right and wrong, as functions of one simulation. Each names what must hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors import Keep, Sink
from streamactors.kafka import (
    Committer,
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.simulation import Faults, OutsideFailed, Simulation

COUNT = 40
ORDERS = [(f"k{number}", {"id": f"k{number}", "customer": number % 5}) for number in range(COUNT)]
CRASHES = Faults.everything(failing_call=0.0, duplicate=0.0)
MEMBERS = Subscriptions.topics("orders")

DONE: dict[str, bool] = {}
"""State of a module: an instance that crashes loses it, and another instance has its own."""


def reader(sim: Simulation, group: str = "bank", **properties: Any) -> ConsumerSettings:
    return ConsumerSettings(sim.servers, group, "earliest", properties={"session.timeout.ms": 10_000, **properties})


def writer(sim: Simulation) -> ProducerSettings:
    return ProducerSettings(sim.servers)


def orders(sim: Simulation) -> Any:
    """Send the orders; return the bank that must have each of them in the end."""
    sim.topic("orders", partitions=3, records=ORDERS, over="30s")
    bank = sim.outside("bank")
    sim.eventually(lambda: bank.keys == sim.sent, within="3m")
    return bank


def paying(sim: Simulation, pay: Callable[[Any], Any]) -> Any:
    """At least once: the effect, then the offset."""
    return (
        Consumer.committable_source(reader(sim), MEMBERS)
        .map(lambda message: (pay(message.record), message.offset)[1])
        .to_mat(Committer.sink(), Keep.both)
    )


def key_of(record: Any) -> str:
    return str(record.key.decode())


# --- mistakes ---


def plain_insert(sim: Simulation) -> None:
    bank = orders(sim)
    sim.deploy(lambda: paying(sim, lambda record: bank.insert(key_of(record))), instances=2)
    sim.always(lambda: bank.unique())


def state_in_a_global(sim: Simulation) -> None:
    bank = orders(sim)

    def once(record: Any) -> None:
        if key_of(record) not in DONE:
            bank.insert(key_of(record))
            DONE[key_of(record)] = True

    sim.deploy(lambda: paying(sim, once), instances=2)
    sim.always(lambda: bank.unique())


def effect_after_commit(sim: Simulation) -> None:
    bank = orders(sim)
    sim.deploy(
        lambda: (
            Consumer.at_most_once_source(reader(sim), MEMBERS)
            .map(lambda record: bank.upsert(key_of(record)))
            .to_mat(Sink.ignore(), Keep.both)
        ),
        instances=2,
    )
    sim.committed_at_most_done(bank)


def error_that_nobody_hears(sim: Simulation) -> None:
    bank = orders(sim)

    def tries(record: Any) -> None:
        try:
            bank.upsert(key_of(record))
        except OutsideFailed:
            pass

    sim.deploy(lambda: paying(sim, tries), instances=2)


def side_effect_in_a_filter(sim: Simulation) -> None:
    bank = orders(sim)

    def pays(message: Any) -> bool:
        bank.insert(key_of(message.record))
        return True

    sim.deploy(
        lambda: (
            Consumer.committable_source(reader(sim), MEMBERS)
            .filter(pays)
            .map(lambda message: message.offset)
            .to_mat(Committer.sink(), Keep.both)
        )
    )
    sim.always(lambda: bank.unique())


def unordered_where_order_matters(sim: Simulation) -> None:
    sim.topic("orders", records=[("customer", number) for number in range(COUNT)], over="1s", key=int)
    bank = sim.outside("bank")

    async def pay(message: Any) -> Any:
        await bank.insert_async(int(message.record.value), int(message.record.value))
        return message.offset

    sim.deploy(
        lambda: (
            Consumer.committable_source(reader(sim), MEMBERS)
            .map_async_unordered(4, pay)
            .to_mat(Committer.sink(), Keep.both)
        )
    )
    sim.order_per_key(bank)


def dedupe_window_too_short(sim: Simulation) -> None:
    bank = orders(sim)

    def pipeline() -> Any:
        seen: list[str] = []

        def once(record: Any) -> None:
            if key_of(record) not in seen[-3:]:
                bank.insert(key_of(record))
                seen.append(key_of(record))

        return paying(sim, once)

    sim.deploy(pipeline, instances=2)
    sim.always(lambda: bank.unique())


def transaction_without_one_sink(sim: Simulation) -> None:
    sim.topic("orders", partitions=3, records=ORDERS, over="30s")
    sim.topic("paid", partitions=3)
    sim.topic("audit", partitions=3)
    bank = sim.outside("bank")

    def paid(record: Any) -> ProducerRecord:
        bank.upsert(key_of(record))
        return ProducerRecord("paid", record.value, record.key)

    def pipeline() -> Any:
        audits = Producer.plain_sink(writer(sim)).contramap(lambda record: record._replace(topic="audit"))
        settings = writer(sim).with_transactional_id(f"pay-{sim.instance}")
        return (
            Transactional.source(reader(sim), MEMBERS)
            .map(paid)
            .also_to(audits)
            .to_mat(Transactional.sink(settings), Keep.both)
        )

    sim.deploy(pipeline, instances=2)
    sim.exactly_once("audit", within="5m")


def forgotten_drain(sim: Simulation) -> None:
    bank = orders(sim)

    def pipeline() -> Any:
        control, done = paying(sim, lambda record: bank.upsert(key_of(record))).run()
        del control
        done.result()

    sim.deploy(pipeline, instances=3)
    sim.drains_within("30s")
    sim.sleep("10s")
    sim.scale(1)


def offsets_of_a_read_that_was_skipped(sim: Simulation) -> None:
    bank = orders(sim)

    def pay(record: Any) -> None:
        if record.offset % 7 != 6:  # "one in seven is a test order"
            bank.upsert(key_of(record))

    sim.deploy(lambda: paying(sim, pay), instances=2)


MISTAKES: dict[str, tuple[Callable[[Simulation], None], str]] = {
    # the body -> the check that finds the mistake
    "plain insert in an at-least-once sink": (plain_insert, "always bank.unique()"),
    "state in a global dict": (state_in_a_global, "always bank.unique()"),
    "effect after commit": (effect_after_commit, "committed_at_most_done(bank)"),
    "an error that nobody hears": (error_that_nobody_hears, "eventually bank.keys == sim.sent"),
    "side effect in a filter": (side_effect_in_a_filter, "always bank.unique()"),
    "unordered map where order matters": (unordered_where_order_matters, "order_per_key(bank)"),
    "dedupe window too short": (dedupe_window_too_short, "always bank.unique()"),
    "transaction that leaves one sink out": (transaction_without_one_sink, "exactly_once(audit)"),
    "forgotten drain": (forgotten_drain, "drains_within(30s)"),
    "records that are skipped": (offsets_of_a_read_that_was_skipped, "eventually bank.keys == sim.sent"),
}


# --- the same, right ---


def idempotent_write(sim: Simulation) -> None:
    bank = orders(sim)
    sim.deploy(lambda: paying(sim, lambda record: bank.upsert(key_of(record), record.value)), instances=2)
    sim.always(lambda: bank.unique())
    sim.committed_at_most_done(bank)
    sim.nothing_lost(bank)


def idempotent_coroutine(sim: Simulation) -> None:
    bank = orders(sim)

    async def pay(message: Any) -> Any:
        await bank.upsert_async(key_of(message.record), message.record.value)
        return message.offset

    sim.deploy(
        lambda: Consumer.committable_source(reader(sim), MEMBERS).map_async(4, pay).to_mat(Committer.sink(), Keep.both),
        instances=2,
    )
    sim.committed_at_most_done(bank)


def marks_commit_by_themselves(sim: Simulation) -> None:
    bank = orders(sim)
    sim.deploy(
        lambda: Consumer.source(reader(sim), MEMBERS).to(Sink.foreach(lambda record: bank.upsert(key_of(record)))),
        instances=2,
    )
    sim.committed_at_most_done(bank)


def copied_in_transactions(sim: Simulation) -> None:
    sim.topic("orders", partitions=3, records=ORDERS, over="30s")
    sim.topic("paid", partitions=3)

    def pipeline() -> Any:
        settings = writer(sim).with_transactional_id(f"pay-{sim.instance}")
        return (
            Transactional.source(reader(sim), MEMBERS)
            .map(lambda record: ProducerRecord("paid", record.value, record.key))
            .to_mat(Transactional.sink(settings), Keep.both)
        )

    sim.deploy(pipeline, instances=2)
    sim.exactly_once("paid", within="5m")


def read_committed_after_transactions(sim: Simulation) -> None:
    copied_in_transactions(sim)
    bank = sim.outside("bank")
    settings = reader(sim, "second").with_property("isolation.level", "read_committed")
    sim.deploy(
        lambda: (
            Consumer.committable_source(settings, Subscriptions.topics("paid"))
            .map(lambda message: (bank.upsert(key_of(message.record)), message.offset)[1])
            .to_mat(Committer.sink(), Keep.both)
        ),
        name="second",
    )
    sim.nothing_lost(bank)


def offset_beside_the_effect(sim: Simulation) -> None:
    bank = orders(sim)

    def pay(record: Any) -> None:
        where = ("offset", record.partition)
        if record.offset > bank.lookup(where, -1):
            bank.upsert_all({key_of(record): 1, where: record.offset})

    sim.deploy(lambda: paying(sim, pay), instances=2)
    sim.checks.wanted.clear()
    sim.eventually(lambda: sim.sent <= bank.keys)


def in_order(sim: Simulation) -> None:
    sim.topic("orders", 3, records=[(f"c{number % 4}", number) for number in range(COUNT)], over="1s", key=int)
    bank = sim.outside("bank")

    async def pay(message: Any) -> Any:
        await bank.upsert_async(int(message.record.value))
        return message.offset

    sim.deploy(
        lambda: Consumer.committable_source(reader(sim), MEMBERS).map_async(1, pay).to_mat(Committer.sink(), Keep.both)
    )
    sim.order_per_key(bank)


def drained(sim: Simulation) -> None:
    bank = orders(sim)
    sim.deploy(lambda: paying(sim, lambda record: bank.upsert(key_of(record))), instances=3)
    sim.drains_within("30s")
    sim.sleep("10s")
    sim.scale(1)
    sim.sleep("5s")
    sim.scale(2)


def at_least_once_to_a_topic(sim: Simulation) -> None:
    sim.topic("orders", partitions=3, records=ORDERS, over="30s")
    sim.topic("paid", partitions=3)
    sim.deploy(
        lambda: (
            Consumer.source(reader(sim), MEMBERS)
            .map(lambda record: ProducerRecord("paid", record.value, record.key))
            .to(Producer.plain_sink(writer(sim)))
        ),
        instances=2,
    )
    sim.nothing_lost("paid", within="5m")


def dedupe_by_the_store(sim: Simulation) -> None:
    bank = orders(sim)
    mails = sim.outside("mails")

    def pay(record: Any) -> None:
        bank.upsert(key_of(record))
        mails.upsert(key_of(record), 1)

    sim.deploy(lambda: paying(sim, pay), instances=2)
    sim.never(lambda: len(mails) > COUNT)


CORRECT = [
    idempotent_write, idempotent_coroutine, marks_commit_by_themselves, copied_in_transactions,
    read_committed_after_transactions, offset_beside_the_effect, in_order, drained, at_least_once_to_a_topic,
    dedupe_by_the_store,
]  # fmt: skip
