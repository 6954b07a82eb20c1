"""The test kit: probes, virtual time, leak checks, pytest fixtures.

    with ActorSystem(clock=VirtualClock()) as system:
        source, sink = TestSource.probe().via(flow).to_mat(TestSink.probe(), Keep.both).run(system)

Names are loaded when first used, so the pytest plugin is cheap where it is not needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamactors.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamactors.clock import VirtualClock as VirtualClock
    from streamactors.testing.kafka_parts import CommittableMessages as CommittableMessages
    from streamactors.testing.kafka_parts import TestControl as TestControl
    from streamactors.testing.kafka_parts import consumer_record as consumer_record
    from streamactors.testing.kafka_parts import producer_multi_result as producer_multi_result
    from streamactors.testing.kafka_parts import producer_result as producer_result
    from streamactors.testing.leaks import assert_all_stages_stopped as assert_all_stages_stopped
    from streamactors.testing.marbles import Marbles as Marbles
    from streamactors.testing.registry.server import SchemaRegistry as SchemaRegistry
    from streamactors.testing.sink_probe import TestSink as TestSink
    from streamactors.testing.sink_probe import TestSinkProbe as TestSinkProbe
    from streamactors.testing.source_probe import TestSource as TestSource
    from streamactors.testing.source_probe import TestSourceProbe as TestSourceProbe
    from streamactors.testing.topology_driver import TopologyDriver as TopologyDriver
    from streamactors.testing.window_test_driver import WindowTestDriver as WindowTestDriver

__getattr__, __dir__ = lazy_names(__name__)
