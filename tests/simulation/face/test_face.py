"""What a test says to a simulation, and what it hears."""

from __future__ import annotations

import itertools
import socket
from typing import Any

import pytest
from hypothesis import strategies as st

from streamactors import Keep, Sink, Source
from streamactors.errors import StreamActorsError
from streamactors.kafka import ProducerRecord, Transactional
from streamactors.simulation import Faults, OutsideFailed, Simulation, SimulationFailed, simulate
from streamactors.simulation.face.case import Case, Outcome
from streamactors.simulation.face.run import run_once
from streamactors.simulation.running.seeds import NotRepeatable, Plan, ProvedNothing, try_seeds
from streamactors.simulation.world.errors import NotSimulated
from tests.simulation.face.pipelines import (
    COUNT,
    MEMBERS,
    MISTAKES,
    ORDERS,
    copied_in_transactions,
    idempotent_write,
    key_of,
    plain_insert,
    reader,
    writer,
)

CALM = Faults.none()


def calmly(body: Any) -> Outcome:
    return run_once(body, Case(0, CALM))


def test_equal_cases_have_equal_outcomes_and_other_seeds_other_ones() -> None:
    one, again, other = (run_once(idempotent_write, Case(seed)) for seed in (5, 5, 6))
    assert one == again
    assert one.digest != other.digest
    assert one.strikes


def test_leaving_a_strike_out_leaves_the_others_of_its_kind() -> None:
    whole = run_once(idempotent_write, Case(5))
    none = run_once(idempotent_write, Case(5, only=frozenset()))
    first = run_once(idempotent_write, Case(5, only=frozenset({whole.strikes[0].id})))
    assert none.strikes == ()
    assert [strike.id for strike in first.strikes] == [whole.strikes[0].id]


def test_only_the_kept_records_are_sent() -> None:
    def body(sim: Simulation) -> None:
        sim.topic("a", records=["x", "y", "z"])
        sim.topic("b", records=["u", "v"])
        kept.append(sim.sent)

    kept: list[Any] = []
    run_once(body, Case(0, CALM, records=frozenset({1, 3})))
    assert kept == [{"y", "u"}]


def test_records_are_values_pairs_or_drawn_and_their_ids_are_what_is_sent() -> None:
    def body(sim: Simulation) -> None:
        sim.topic("values", 2, records=["text", b"bytes", {"id": 7}, None])
        sim.topic("pairs", records=[("key", 1)])
        sim.topic("named", records=[{"id": "n"}], key=lambda value: value["id"])
        sim.eventually(lambda: sim.is_sent)
        sim.sleep("2m")
        found.append(sorted(record.value or b"" for record in sim.read("values")))
        found.append([record.key for record in sim.read("pairs")])
        found.append(sim.sent == {"text", b"bytes", b'{"id": 7}', None, "key", "n"})

    found: list[Any] = []
    assert calmly(body).broken is None
    assert found[:2] == [[b"", b"bytes", b"text", b'{"id": 7}'], [b"key"]]
    assert found[2]


def test_a_strategy_is_drawn_from_the_seed() -> None:
    def body(sim: Simulation) -> None:
        sim.topic("drawn", records=st.integers(), count=30)
        sim.topic("list", records=st.lists(st.text(min_size=1), min_size=3))
        found.append((sim.seed, frozenset(sim.sent)))

    found: list[Any] = []
    for seed in (1, 2, 1):
        run_once(body, Case(seed, CALM))
    assert found[0] == found[2]
    assert found[0] != found[1]
    assert len(found[0][1]) > 15


def test_a_store_outside_keeps_what_it_was_sent_and_not_what_the_sender_changes_later() -> None:
    def body(sim: Simulation) -> None:
        store = sim.outside("store")
        value = {"n": 1}
        store.upsert("a", value)
        value["n"] = 2
        store.insert("b")
        store.insert("b")
        store.delete("c")
        assert store["a"] == {"n": 1}
        assert store.lookup("a") == {"n": 1}
        assert not store.unique()
        assert "'b'" in store.unique().why
        assert len(store) == 3
        assert sim.outside("store") is store

    assert calmly(body).broken is None


def test_a_call_may_fail_before_its_effect_and_after_it() -> None:
    def body(sim: Simulation) -> None:
        sim.deploy(lambda: None)
        store = sim.outside("store")
        for number in range(50):
            try:
                store.upsert(number)
                outcomes.add("done")
            except OutsideFailed:
                outcomes.add("after" if number in store else "before")

    outcomes: set[str] = set()
    assert run_once(body, Case(0, Faults.none(failing_call=0.5))).broken is None
    assert outcomes == {"done", "before", "after"}


def test_what_does_not_hold_is_named_with_the_source_of_its_condition_and_the_reason() -> None:
    def always(sim: Simulation) -> None:
        store = sim.outside("store")
        sim.always(lambda: len(store) < 2)
        store.insert("a")
        store.insert("b")

    def never(sim: Simulation) -> None:
        store = sim.outside("store")
        sim.never(lambda: "a" in store, name="a is there")
        store.insert("a")

    def eventually(sim: Simulation) -> None:
        sim.topic("in", records=["x"])
        store = sim.outside("store")
        sim.eventually(lambda: store.keys == sim.sent, within="5s")

    found = [calmly(body).broken for body in (always, never, eventually)]
    assert [broken and (broken.check, broken.text) for broken in found] == [
        ("always len(store) < 2", "does not hold"),
        ("never a is there", "it did"),
        ("eventually store.keys == sim.sent", "1 of 1 missing: 'x' (5 s after the faults were over)"),
    ]


def test_a_condition_sees_the_state_of_the_body_and_not_that_of_an_instance() -> None:
    def body(sim: Simulation) -> None:
        NOTES.append("body")
        store = sim.outside("store")

        def pipeline() -> None:
            NOTES.append("instance")
            sizes.append(len(NOTES))
            store.insert(sim.instance)

        sim.always(lambda: NOTES == ["body"])
        sim.deploy(pipeline, instances=2)

    sizes: list[int] = []
    assert calmly(body).broken is None
    assert sizes == [1, 1]
    assert NOTES == []


NOTES: list[str] = []


def test_an_instance_that_fails_is_started_again_and_one_that_never_works_is_an_error() -> None:
    def twice(sim: Simulation) -> None:
        store = sim.outside("store")

        def pipeline() -> None:
            store.insert(len(store))
            if len(store) < 3:
                raise OSError("not yet")

        sim.deploy(pipeline)
        sim.eventually(lambda: len(store) == 3)
        sim.sometimes("an instance failed")

    def never(sim: Simulation) -> None:
        sim.deploy(lambda: 1 // 0)

    outcome = calmly(twice)
    assert outcome.broken is None
    assert outcome.reached == {"an instance failed"}
    broken = calmly(never).broken
    assert broken is not None
    assert broken.check == "starts"
    assert "ZeroDivisionError" in broken.text


def test_an_instance_that_leaves_is_asked_to_end_and_its_graph_drains() -> None:
    def body(sim: Simulation) -> None:
        store = sim.outside("store")
        sim.deploy(lambda: Source.repeat(1).throttle(1, "100ms").map(store.upsert).to(Sink.ignore()), instances=2)
        sim.sleep("1s")
        sim.scale(1)
        assert sim.deployment.instances() == ["1"]
        assert sim.deployment.drained_ms[0][2]
        sim.scale(3)
        assert sim.deployment.instances() == ["1", "2", "3"]
        sim.drains_within("10s")

    assert calmly(body).broken is None


def test_a_socket_is_refused_with_the_line_of_the_user() -> None:
    def body(sim: Simulation) -> None:
        sim.deploy(lambda: socket.create_connection(("localhost", 9)))
        sim.sleep("1s")

    with pytest.raises(NotSimulated, match=r"test_face\.py:\d+"):
        calmly(body)


def test_a_failing_seed_whose_runs_differ_is_an_error_of_its_own() -> None:
    runs = itertools.count()

    def body(sim: Simulation) -> None:
        sim.outside("store").insert(next(runs))
        raise ValueError("always")

    with pytest.raises(NotRepeatable, match=r"one has effect .*key=1.*the other effect .*key=2"):
        try_seeds(body, Plan(3))


def test_a_name_that_no_seed_reached_proves_nothing_and_an_unknown_one_is_refused() -> None:
    def body(sim: Simulation) -> None:
        sim.sometimes("rebalanced")
        sim.sometimes("seed 1", lambda: sim.seed == 1)
        sim.outside("store").insert(1)

    with pytest.raises(ProvedNothing, match=r"none of 3 seeds reached 'rebalanced';"):
        try_seeds(body, Plan(3))
    with pytest.raises(StreamActorsError, match="none of the ready names: an instance crashed"):
        simulate(lambda sim: sim.sometimes("rebalancd"), seeds=1) or pytest.fail("taken")


def test_simulate_raises_the_story_of_the_first_failing_seed_also_from_several_processes() -> None:
    alone, together = (_failure(jobs) for jobs in (1, 2))
    assert alone.tried.failing == together.tried.failing
    assert "always bank.unique()" in str(alone)
    assert f"simulate(plain_insert, seed={alone.tried.failing.seed})" in str(alone)  # type: ignore[union-attr]
    assert str(alone) == str(together)


def _failure(jobs: int) -> SimulationFailed:
    with pytest.raises(SimulationFailed) as caught:
        simulate(plain_insert, seeds=20, jobs=jobs, story=0)  # a story that takes time depends on the machine
    return caught.value


def test_all_seeds_of_several_processes_are_tried() -> None:
    assert simulate(lambda sim: sim.outside("store").insert(1), seeds=7, jobs=3).seeds == 7


def test_a_time_ends_the_seeds() -> None:
    assert simulate(lambda sim: None, seeds=1_000_000, time="200ms").seeds < 1_000_000


def test_every_mistake_has_another_name() -> None:
    assert len({body for body, _ in MISTAKES.values()}) == len(MISTAKES)


def test_offsets_of_a_transaction_are_committed_when_it_is() -> None:
    outcome = calmly(copied_in_transactions)
    assert outcome.broken is None
    commits = [event.facts for event in outcome.events if event.kind == "commit"]
    assert {each["transactional_id"] for each in commits} == {"pay-1-1", "pay-2-2"}
    newest = {each["partition"]: each["offset"] for each in commits if each["topic"] == "orders"}
    assert sum(map(int, map(str, newest.values()))) == COUNT
    assert {event.facts["state"] for event in outcome.events if event.kind == "transaction"} >= {"committed"}


def effects_behind_a_transaction(sim: Simulation) -> None:
    """A mistake: each effect is done with the next record, when the transaction of its own record may be committed."""
    sim.topic("orders", records=ORDERS, over="30s")
    sim.topic("paid")
    bank = sim.outside("bank")

    def pipeline() -> Any:
        before: list[str] = []

        def paid(record: Any) -> ProducerRecord:
            for key in before:
                bank.upsert(key)
            before[:] = [key_of(record)]
            return ProducerRecord("paid", record.value, record.key)

        settings = writer(sim).with_transactional_id(f"pay-{sim.instance}")
        return Transactional.source(reader(sim), MEMBERS).map(paid).to_mat(Transactional.sink(settings), Keep.both)

    sim.deploy(pipeline)
    sim.committed_at_most_done(bank)


def test_an_effect_after_the_commit_of_its_transaction_is_found() -> None:
    broken = calmly(effects_behind_a_transaction).broken
    assert broken is not None
    assert broken.check == "committed_at_most_done(bank)"
