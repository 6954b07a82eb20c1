"""The laws for stages that pass elements on: identity, kill switches, restarting flows."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors import Flow, RestartSettings
from streamactors.stages.bases.passing import Identity
from streamactors.stages.control.kill_switch import KillSwitch, KillSwitchStage
from streamactors.stages.control.restart import RestartingFlow
from tests.stages.harness import Bench
from tests.stages.laws import RUNS, Case, check_run, perform

SETTINGS = RestartSettings("1s", "8s", random_factor=0)


CASES = {
    "identity": Case(lambda hook: Identity(), list, calls=False),
    "kill_switch": Case(lambda hook: KillSwitchStage(), list, calls=False),
    "restart_flow": Case(
        lambda hook: RestartingFlow(SETTINGS, lambda: Flow.map(lambda x: x), only_on_failures=False), list, calls=False
    ),
}
MODEST = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("name", CASES)
@MODEST
@given(run=RUNS)
def test_any_interleaving_keeps_the_laws(timeless, name, run):
    check_run(CASES[name], timeless, run)


@MODEST
@given(run=RUNS, abort=st.booleans())
def test_a_switch_may_be_used_at_any_moment(timeless, run, abort):
    steps, _, requests, _ = run
    switch = KillSwitch()
    with Bench(timeless, KillSwitchStage(switch)) as bench:
        perform(bench, steps)
        error = ValueError("abort")
        if abort:
            switch.abort(error)
        else:
            switch.shutdown()
        bench.settle()
        for n in requests:
            bench.request(n)
        assert bench.end is error if abort else bench.end == "completed"
        assert bench.received == bench.sent[: len(bench.received)]
        assert bench.stopped
        assert bench.source.stopped
        assert all(mark <= len(bench.received) for mark in bench.marks), "nothing that was cut off is done"
