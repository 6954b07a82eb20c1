"""The test kit: probes, virtual time, leak checks, pytest fixtures.

    with ActorSystem(clock=VirtualClock()) as system:
        source, sink = TestSource.probe().via(flow).to_mat(TestSink.probe(), Keep.both).run(system)

Names are loaded when first used, so that the pytest plugin costs nothing where it is not needed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamactors.clock import VirtualClock as VirtualClock
    from streamactors.testing.leaks import assert_all_stages_stopped as assert_all_stages_stopped
    from streamactors.testing.sink_probe import TestSink as TestSink
    from streamactors.testing.sink_probe import TestSinkProbe as TestSinkProbe
    from streamactors.testing.source_probe import TestSource as TestSource
    from streamactors.testing.source_probe import TestSourceProbe as TestSourceProbe
    from streamactors.testing.window_test_driver import WindowTestDriver as WindowTestDriver

_HOME_OF = {
    "VirtualClock": "streamactors.clock",
    "assert_all_stages_stopped": "streamactors.testing.leaks",
    "TestSink": "streamactors.testing.sink_probe",
    "TestSinkProbe": "streamactors.testing.sink_probe",
    "TestSource": "streamactors.testing.source_probe",
    "TestSourceProbe": "streamactors.testing.source_probe",
    "WindowTestDriver": "streamactors.testing.window_test_driver",
}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'streamactors.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
