"""`simulate(body)`: tries a test's body by many seeds, without pytest. Owner: the user who calls it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from streamactors.durations import Duration, duration_s
from streamactors.simulation.face.run import FAULTS_MS, Body
from streamactors.simulation.running.report import FOLDER, STORY_S, report
from streamactors.simulation.running.seeds import SEEDS, Plan, Tried, runner, try_seeds
from streamactors.simulation.story.simcase import load
from streamactors.simulation.world.errors import SimulationError


class SimulationFailed(SimulationError, AssertionError):
    """A seed has broken a check. `tried` has the case and its outcome."""

    def __init__(self, text: str, tried: Tried) -> None:
        super().__init__(text)
        self.tried = tried


def simulate(
    body: Body,
    *,
    seeds: int = SEEDS,
    seed: int | None = None,
    time: Duration | None = None,
    jobs: int | None = 1,
    faults: Any = None,
    faults_for: Duration = FAULTS_MS / 1_000,
    lines: float = 0.0,
    story: Duration = STORY_S,
    case: str | Path | None = None,
    repeat: str | None = None,
    repeat_case: str | None = None,
) -> Tried:
    """Run `body(sim)` by seeds until one fails; return how many were tried, and how long that took.

    `seed`: this one alone. `time`: begin no further seed after this real time. `jobs`: processes; None: one for each core. `faults`: what may go
    wrong, everything by default. `faults_for`: virtual time for which faults act after the last record. `lines`: how often a task gives way
    between two lines of user code. `story`: real time for finding the shortest story of a failure. `case`: the file of a failing case, which is run alone. `repeat`: how the reader of a failure runs "{seed}" again; `repeat_case`: the file at "{path}".
    Raises SimulationFailed with the story of the first failing seed, ProvedNothing, NotRepeatable, NotSimulated, and NoSimcase for a file that is none."""
    plan = Plan(
        seeds, seed, None if time is None else duration_s(time, "time"), jobs or os.cpu_count() or 1, faults, lines,
        duration_s(faults_for, "faults_for") * 1_000, None if case is None else load(Path(case)).case,
    )  # fmt: skip
    tried = try_seeds(body, plan)
    if tried.failing is not None:
        name = getattr(body, "__qualname__", "body")
        told = (repeat or f"simulate({name}, seed={{seed}})").format(seed=tried.failing.seed)
        told_case = repeat_case or f"simulate({name}, case='{{path}}')"
        test = f"{getattr(body, '__module__', '')}:{name}"
        text = report(
            tried, runner(body, plan), name=name, test=test, repeat=told, repeat_case=told_case, folder=Path(FOLDER),
            story_s=duration_s(story, "story"),
        )  # fmt: skip
        raise SimulationFailed(text, tried)
    return tried
