"""pytest plug-in: `@pytest.mark.simulate` tries a test by many seeds, and `sim` is its simulation.

Owner: pytest. Every pytest run of the environment loads it, so it imports the simulation only for a test that is marked."""

from __future__ import annotations

import os
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from streamactors.simulation.running.seeds import Plan

_MARK: Final = "simulate"
_KNOWN: Final = ("seeds", "faults", "faults_for", "lines", "time", "story", "case", "real", "minutes")
_JOBS_OF_XDIST: Final = "PYTEST_XDIST_WORKER"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("streamactors: simulation")
    group.addoption("--sim-seeds", type=int, help="try so many seeds of each simulated test")
    group.addoption("--sim-seed", type=int, help="try this seed alone, as a failure names it")
    group.addoption("--sim-case", help="run the case of this file alone, as a failure names it")
    group.addoption("--sim-time", help="begin no further seed of a test after this time, such as 60s")
    group.addoption("--sim-jobs", help="try the seeds of a test in so many processes; auto: one for each core")
    group.addoption(
        "--sim-cases", help="the folder for the files of failing cases; .simcases in the root folder without it"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "simulate(seeds=100, faults=None, faults_for='15s', lines=0, time=None, story='20s', case=None): run the test's body in a simulated world, once for each seed",
    )


@pytest.fixture
def sim(request: pytest.FixtureRequest) -> Any:
    """The simulation of one seed; for tests that are marked with `simulate`."""
    if request.node.get_closest_marker(_MARK) is None:
        raise pytest.UsageError(f"{request.node.nodeid}: the fixture `sim` needs the marker @pytest.mark.simulate")
    return None  # each seed has its own


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a marked test by seeds."""
    marker = pyfuncitem.get_closest_marker(_MARK)
    if marker is None:
        return None
    unknown = [name for name in marker.kwargs if name not in _KNOWN]
    if marker.args or unknown:
        what = ", ".join(map(repr, [*marker.args, *unknown]))
        raise pytest.UsageError(f"{pyfuncitem.nodeid}: simulate does not know {what}; it has {', '.join(_KNOWN)}")
    if marker.kwargs.get("real"):
        raise pytest.UsageError(
            f"{pyfuncitem.nodeid}: real=True is not there yet; leave it out to simulate the cluster"
        )
    if "sim" not in pyfuncitem.fixturenames:
        raise pytest.UsageError(f"{pyfuncitem.nodeid}: a simulated test takes the fixture `sim`")
    _run(pyfuncitem, dict(marker.kwargs))
    return True


def _run(item: pytest.Function, given: dict[str, Any]) -> None:
    try:
        from streamactors.durations import duration_s
        from streamactors.simulation.running.report import FOLDER, STORY_S, report
        from streamactors.simulation.running.seeds import runner, try_seeds
        from streamactors.simulation.world.errors import SimulationError
    except ModuleNotFoundError as error:
        if error.name != "greenlet":
            raise
        raise pytest.UsageError("simulated tests need greenlet: pip install 'streamactors[simulation]'") from None
    others = {name: item.funcargs[name] for name in item._fixtureinfo.argnames if name != "sim"}

    @wraps(item.obj)
    def body(sim: Any) -> None:
        item.obj(sim=sim, **others)

    plan = _plan(item, given)
    tried, why = None, ""
    try:
        tried = try_seeds(body, plan)
    except SimulationError as error:
        why = f"{type(error).__name__}: {error}"
    if tried is None:
        pytest.fail(why, pytrace=False)
    item.user_properties.append(("simulated seeds", tried.seeds))
    if tried.failing is None:
        item.add_report_section("call", "simulation", f"{tried.seeds} seeds, {tried.per_minute:.0f} a minute")
        return
    folder = item.config.getoption("--sim-cases") or item.config.rootpath / FOLDER
    text = report(
        tried, runner(body, plan), name=item.name, test=item.nodeid,
        repeat=f"pytest '{item.nodeid}' --sim-seed={tried.failing.seed}",
        repeat_case=f"pytest '{item.nodeid}' --sim-case='{{path}}'", folder=Path(folder),
        story_s=duration_s(given.get("story", STORY_S), "story"),
    )  # fmt: skip
    pytest.fail(text, pytrace=False)


def _plan(item: pytest.Function, given: dict[str, Any]) -> Plan:
    from streamactors.durations import duration_s
    from streamactors.simulation.face.run import FAULTS_MS
    from streamactors.simulation.running.seeds import SEEDS, Plan
    from streamactors.simulation.story.simcase import load

    option = item.config.getoption
    time = option("--sim-time") or given.get("time")
    seeds = option("--sim-seeds")
    case = option("--sim-case") or given.get("case")
    return Plan(
        given.get("seeds", SEEDS) if seeds is None else seeds,
        option("--sim-seed"),
        None if time is None else duration_s(time, "--sim-time"),
        _jobs(option("--sim-jobs")),
        given.get("faults"),
        given.get("lines", 0.0),
        duration_s(given.get("faults_for", FAULTS_MS / 1_000), "faults_for") * 1_000,
        None if case is None else load(item.config.rootpath / case).case,
    )


def _jobs(asked: str | None) -> int:
    """One process by default; under xdist the workers are the processes."""
    if asked is None or _JOBS_OF_XDIST in os.environ:
        return 1
    return (os.cpu_count() or 1) if asked == "auto" else int(asked)
