"""Each fault strikes, is left out without a change to others, and ends: pipelines of two instances in a simulated run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import pytest

from streamactors.simulation import Faults, Simulation, at, between
from streamactors.simulation.face.case import Case, Outcome
from streamactors.simulation.face.run import run_once
from tests.simulation.face.pipelines import copied_in_transactions, idempotent_write

SOON = at("5s", "12s", "20s")
BY_THEMSELVES = (
    "broker_killed", "broker_slow", "broker_cut_off", "leader_moved", "coordinator_moved", "refused", "rebalance", "crash", "zombie",
    "clock_jump",
)  # fmt: skip


def run(seed: int, faults: Faults, body: Any = idempotent_write, only: frozenset[str] | None = None) -> Outcome:
    outcome = run_once(body, Case(seed, faults, only))
    assert outcome.broken is None, outcome.broken
    return outcome


def kinds(outcome: Outcome) -> Counter[str]:
    return Counter(event.kind for event in outcome.events)


@pytest.mark.parametrize("fault", BY_THEMSELVES)
def test_a_fault_that_comes_by_itself_strikes_at_its_times_and_the_pipeline_survives(fault: str) -> None:
    strikes = run(3, Faults.none(**{fault: SOON})).strikes
    assert 1 <= len(strikes) <= 3
    assert {each.fault for each in strikes} == {fault}
    assert {round(each.at_ms / 1_000) for each in strikes} <= {5, 12, 20}


@pytest.mark.parametrize("fault", ["request_lost", "answer_lost", "slow_call", "failing_call", "duplicate"])
def test_a_fault_at_an_opportunity_strikes_at_its_rate_and_the_pipeline_survives(fault: str) -> None:
    rate = 0.1 if fault.endswith("lost") else 0.2
    strikes = run(3, Faults.none(**{fault: rate}, slow_call_takes="1s..2s")).strikes
    assert {each.fault for each in strikes} == {fault}
    assert run(3, Faults.none()).strikes == ()


@pytest.mark.parametrize(
    ("first", "last"),
    [("effect", "commit"), ("start", "assigned"), ("assigned", "effect"), ("commit", "effect")],
)
def test_a_crash_between_two_moments_comes_there(first: str, last: str) -> None:
    outcome = run(3, Faults.none(crash=between(first, last, rate=0.6)))
    crashed = [event for event in outcome.events if event.kind == "crash" and event.facts["of"] in ("1", "2")]
    strikes = outcome.strikes
    assert strikes, "it never struck"
    assert len(crashed) >= len(strikes)
    assert {each.fault for each in strikes} == {f"crash between {first} and {last}"}


@pytest.mark.parametrize("last", ["transaction committing", "transaction begun"])
def test_a_crash_in_a_transaction_leaves_nothing_twice(last: str) -> None:
    first = "transaction begun" if last == "transaction committing" else "transaction committing"
    assert run(2, Faults.none(crash=between(first, last, rate=0.3)), copied_in_transactions).strikes


def test_a_crash_after_an_effect_is_before_its_commit() -> None:
    outcome = run(1, Faults.none(crash=between("effect", "commit", rate=0.3)))
    done = {event.facts["key"] for event in outcome.events if event.kind == "effect"}
    again = [key for key, n in Counter(e.facts["key"] for e in outcome.events if e.kind == "effect").items() if n > 1]
    assert len(done) == 40
    assert again, "a crash there lets records come again"


def sent_with(faults: Faults) -> list[Any]:
    seen: list[Any] = []

    def body(sim: Simulation) -> None:
        sim.topic("orders", records=[(f"k{number}", "value") for number in range(100)], over="1s")
        sim.sleep("2s")
        seen.extend(sim.read("orders"))

    assert run_once(body, Case(1, faults)).broken is None
    return seen


def test_records_are_late_poisoned_huge_and_null_beside_the_right_ones() -> None:
    assert [each.value for each in sent_with(Faults.none())] == [b"value"] * 100
    values = Counter(each.value for each in sent_with(Faults.none(poisoned=0.2, null=0.2, huge=0.02)))
    assert values[b"value"] == 100
    assert values[None] > 5
    assert sum(1 for value in values.elements() if value and len(value) == 900_000) >= 1
    assert sum(n for value, n in values.items() if value and value.startswith(b"\xff\xfe")) > 5
    late = sent_with(Faults.none(late=0.3, lateness="1h..2h"))
    newest = max(each.timestamp for each in late)
    assert 10 < sum(1 for each in late if each.timestamp < newest - 3_000_000) < 50


def test_a_strike_that_is_left_out_changes_no_decision_before_it_and_no_other_dice() -> None:
    faults = Faults.none(crash=SOON, broker_killed=SOON, leader_moved=SOON)
    every_strike = [each.id for each in run(4, faults).strikes]
    assert len(every_strike) > 4
    left_out = every_strike[2]
    kept = [each.id for each in run(4, faults, only=frozenset(every_strike) - {left_out}).strikes]
    assert kept[:2] == every_strike[:2]
    assert left_out not in kept
    assert set(kept) <= set(every_strike)
    assert run(4, faults, only=frozenset()).strikes == ()


def test_faults_end_when_they_are_healed() -> None:
    found: list[Any] = []

    def body(sim: Simulation) -> None:
        idempotent_write(sim)
        sim.sleep("40s")

        def look() -> bool:
            cluster = sim.cluster
            reached = [each for each in cluster.brokers if cluster.is_reached(each)]
            slow = set(vars(cluster.weather)["slow"])
            running = all(map(sim.deployment.is_running, "12"))
            found.append((reached, dict(cluster.refuses_instances), slow, running))
            return True

        sim.eventually(look)

    long = Faults.none(
        broker_killed=0.5, broker_cut_off=0.5, broker_slow=0.5, refused=0.5, zombie=0.2, crash=0.1, downtime="10m..20m",
        pauses="10m..20m",
    )  # fmt: skip
    outcome = run_once(body, Case(1, long))
    assert outcome.broken is None, outcome.broken
    assert len({each.fault for each in outcome.strikes}) > 3
    assert found[-1] == ([0, 1, 2], {}, set(), True)


def test_an_instance_that_has_joined_leaves_though_the_faults_are_over() -> None:
    seen: list[list[str]] = []

    def body(sim: Simulation) -> None:
        idempotent_write(sim)

        def two_are_left() -> bool:
            seen.append(sim.deployment.instances())
            return len(seen[-1]) == 2

        sim.eventually(two_are_left, within="3m")

    outcome = run_once(body, Case(1, Faults.none(rebalance=at("5s", "25s"), downtime="30s..40s")))
    assert outcome.broken is None, outcome.broken
    assert len(seen[0]) > 2
    assert seen[-1] == ["1", "2"]


def test_a_call_that_arrives_again_comes_after_later_ones() -> None:
    values: list[Any] = []

    def body(sim: Simulation) -> None:
        store = sim.outside("store")
        sim.deploy(lambda: [store.upsert("key", number) for number in range(3)])
        sim.sleep("5s")
        values.append(store["key"])

    for seed in range(5):
        assert run_once(body, Case(seed, Faults.none(reordered=0.5))).broken is None
    assert set(values) - {2}, "an older value has come back"
    values.clear()
    assert run_once(body, Case(0, Faults.none())).broken is None
    assert values == [2]


def found_after_a_crash(seed: int, **faults: Any) -> bytes | None:
    """Return what an instance finds in its file after a crash; it had written 100 bytes."""
    found: list[bytes | None] = []

    def body(sim: Simulation) -> None:
        def pipeline() -> None:
            file = sim.folder / "state"
            found.append(file.read_bytes() if file.exists() else None)
            file.write_bytes(b"x" * 100)
            time.sleep(3_600)

        sim.deploy(pipeline)
        sim.sleep("40s")

    assert run_once(body, Case(seed, Faults.none(crash=at("5s"), **faults))).broken is None
    assert found[0] is None
    return found[1]


def test_a_crash_keeps_the_disk_or_loses_it_or_tears_the_last_write() -> None:
    assert found_after_a_crash(1) == b"x" * 100
    assert found_after_a_crash(1, state_lost=1.0) is None
    torn = [found_after_a_crash(seed, torn_write=1.0) for seed in range(6)]
    assert any(content is not None and len(content) < 100 for content in torn)


def test_everything_strikes_with_each_of_its_faults_in_some_seed() -> None:
    struck = {each.fault for seed in range(12) for each in run(seed, Faults.everything()).strikes}
    wanted = {name for name in BY_THEMSELVES if name != "crash"} | {
        "request_lost",
        "failing_call",
        "duplicate",
        "crash",
    }
    assert wanted <= struck
    assert any(name.startswith("crash between") for name in struck)
    assert Faults.everything().poisoned == 0


_AGAIN = """
import json
from streamactors.simulation.face.case import Case
from streamactors.simulation.face.run import run_once
from tests.simulation.face.pipelines import copied_in_transactions
found = [run_once(copied_in_transactions, Case(seed)) for seed in range(3)]
print(json.dumps([[each.digest, [strike.id for strike in each.strikes]] for each in found]))
"""


def test_the_same_seed_has_the_same_strikes_in_two_interpreters_with_two_hash_seeds() -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-c", _AGAIN], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True,
            check=True, timeout=300,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert outputs[0] == outputs[1]
    assert all(strikes for _, strikes in json.loads(outputs[0]))
