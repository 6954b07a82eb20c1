"""Stories of planted mistakes: shorter than the run, with the right kind of mistake, and repeated from a file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamactors.simulation import Faults, SimulationFailed, at, between, every, simulate
from streamactors.simulation.face.case import Broken, Case, Outcome
from streamactors.simulation.face.run import run_once
from streamactors.simulation.story.mistake import mistake_of
from streamactors.simulation.story.simcase import NoSimcase, load, save
from streamactors.simulation.story.tell import Story, tell
from streamactors.simulation.story.timeline import WIDTH, text_of
from streamactors.simulation.world.events import Event
from tests.simulation.face.pipelines import MISTAKES, idempotent_write, plain_insert

KINDS = {
    "plain insert in an at-least-once sink": "a plain write in an at-least-once pipeline",
    "effect after commit": "committed before the effect",
    "unordered map where order matters": "order lost in the pipeline",
    "records that are skipped": "committed without an effect",
}
ROOT = Path(__file__).parents[3]


def story_of(body: Any, runs: int = 15) -> Story:
    asked = []

    def again(case: Case) -> Outcome:
        asked.append(case)
        return run_once(body, case)

    for seed in range(20):
        outcome = again(Case(seed))
        if outcome.broken is not None:
            asked.clear()
            return tell(again, Case(seed), outcome, is_over=lambda: len(asked) >= runs)
    raise AssertionError("no seed failed")


@pytest.mark.parametrize("name", KINDS)
def test_a_story_is_shorter_than_its_run_and_names_the_kind_of_mistake(name: str) -> None:
    body, check = MISTAKES[name]
    story = story_of(body)
    assert story.mistake is not None
    assert story.mistake.kind == KINDS[name]
    assert story.outcome.broken is not None
    assert story.outcome.broken.check == check
    assert len(story.outcome.strikes) <= len(story.first.strikes)
    assert len(story.outcome.events) < len(story.first.events)
    assert story.mistake.text in story.text()


def test_a_file_repeats_the_shortest_case_in_another_process(tmp_path: Path) -> None:
    story = story_of(plain_insert)
    path = tmp_path / "one.simcase"
    story.save(path, "tests.simulation.face.pipelines:plain_insert")
    kept = load(path)
    assert kept.case.only == story.case.only
    assert kept.case.records == story.case.records
    assert kept.check == "always bank.unique()"
    told = subprocess.run(
        [sys.executable, "-m", "streamactors.cli.main", "simulate", "tests.simulation.face.pipelines:plain_insert", "--case", path],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert told.returncode == 1, told.stderr
    assert re.search(r"seed \d+ breaks always bank.unique\(\)", told.stderr + told.stdout)
    again = run_once(plain_insert, kept.case)
    assert again.digest == kept.digest


def test_a_case_that_is_repaired_holds_and_the_story_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SimulationFailed, match="shortest story") as failed:
        simulate(plain_insert, seeds=20, story="2s")
    (path,) = (tmp_path / ".simcases").iterdir()
    assert path.name in str(failed.value)
    with pytest.raises(SimulationFailed):
        simulate(plain_insert, case=path)
    assert simulate(idempotent_write, case=path).seeds == 1


def test_faults_in_every_form_come_back_from_a_file(tmp_path: Path) -> None:
    outcome = run_once(plain_insert, Case(0, Faults.none()))
    faults = Faults.none(
        crash=(0.5, at("5s", "9s"), between("effect", "commit", 0.5)), zombie=every("1m"), pauses="20s..30s"
    )
    case = Case(7, faults, frozenset({"crash/1/1"}), frozenset({3, 1}), 0.25)
    broken = replace(outcome, broken=Broken("check", "text", 0, 0, None))
    save(tmp_path / "a.simcase", "test", case, broken)
    assert load(tmp_path / "a.simcase").case == case


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x80\x04", "is no case of a simulation"),
        (b"[]", "is no case of a simulation"),
        (b'{"simcase": 99}', "is of version 99"),
        (b'{"simcase": 1, "seed": Infinity, "faults": null, "only": null, "records": null}', "OverflowError"),
        (b"[" * 200_000, "is no case of a simulation"),
        (b'{"simcase": 1, "faults": {"crash": 7}, "seed": 1}', "is no case of a simulation"),
    ],
)
def test_a_file_that_is_no_case_is_refused_with_a_sentence(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.simcase"
    path.write_bytes(content)
    with pytest.raises(NoSimcase, match=told):
        load(path)


def test_a_file_has_nothing_but_json(tmp_path: Path) -> None:
    story = story_of(MISTAKES["effect after commit"][0])
    story.save(tmp_path / "one.simcase")
    assert json.loads((tmp_path / "one.simcase").read_text())["simcase"] == 1


def effect(
    at_s: float, key: str, offset: int | None, *, call: str = "upsert", outcome: str = "done", by: str = "1"
) -> Event:
    record = None if offset is None else ("t", 0, offset)
    facts = {
        "store": "bank",
        "call": call,
        "key": key,
        "value": None,
        "ordinal": 1,
        "outcome": outcome,
        "record": record,
    }
    return Event(int(at_s * 1e6), by, "effect", facts)


def commit(at_s: float, offset: int) -> Event:
    return Event(int(at_s * 1e6), "", "commit", {"group": "g", "topic": "t", "partition": 0, "offset": offset})


def produced(at_s: float, topic: str, offset: int, transactional_id: str | None = None) -> Event:
    facts = {"topic": topic, "partition": 0, "first": offset, "last": offset, "transactional_id": transactional_id}
    return Event(int(at_s * 1e6), "", "produced", facts)


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([commit(1, 1), effect(2, "a", 0)], "committed before the effect"),
        ([effect(1, "a", 0), commit(2, 1)], None),
        ([commit(1, 1), effect(1, "a", 0)], "committed before the effect"),
        ([effect(1, "a", 0), commit(1, 1)], None),
        ([effect(1, "a", 0, outcome="failed before"), commit(2, 1)], "an ignored failure"),
        ([effect(1, "a", 0, outcome="failed before"), effect(1.5, "a", 0), commit(2, 1)], None),
        (
            [effect(1, "a", 0, call="insert"), effect(2, "a", 0, call="insert")],
            "a plain write in an at-least-once pipeline",
        ),
        ([effect(1, "a", 0), effect(2, "a", 0)], None),
        ([effect(1, "b", 1), effect(2, "a", 0)], "order lost in the pipeline"),
        ([effect(1, "b", 1, by="1"), effect(2, "a", 0, by="2")], None),
        ([produced(0, "t", 0), produced(0, "t", 1), effect(1, "b", 1), commit(2, 2)], "committed without an effect"),
        ([produced(1, "paid", 0, "x"), produced(2, "audit", 0)], "a sink outside of the transaction"),
        ([produced(1, "paid", 0, "x"), produced(2, "paid", 1, "x")], None),
    ],
)
def test_a_rule_finds_its_kind_of_mistake_and_no_other(events: list[Event], kind: str | None) -> None:
    found = mistake_of(events, Broken("eventually", "text", 0, 0, None))
    assert (found.kind if found else None) == kind


def test_a_timeline_has_a_lane_for_each_instance_and_folds_equal_events() -> None:
    events = [
        Event(0, "", "start", {"of": "1"}),
        Event(0, "", "start", {"of": "2"}),
        *(effect(1 + n / 10, f"k{n}", n) for n in range(9)),
        Event(2_000_000, "", "pause", {"of": "2"}),
        Event(3_000_000, "1", "crash", {"of": "1"}),
        commit(4, 5),
    ]
    assert text_of(events, [3_000_000]) == [
        "            1 2  instances",
        "      0.000 ●    instance 1 starts",
        "      0.000 │ ●  instance 2 starts",
        "      1.000 ● │  bank.upsert: 'k0' (t-0@0), 'k1' (t-0@1), 'k2' (t-0@2), 'k3' (t-0@3), … 'k8' (t-0@8)",
        "      2.000 │ ●  instance 2 freezes",
        "→     3.000 ✗ ┊  instance 1 is killed",
        "      4.000   ┊  group g commits t-0@5",
    ]
    assert all(len(line) <= WIDTH for line in text_of(story_of(plain_insert, 0).outcome.events))
