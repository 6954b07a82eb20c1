"""The thread that deletes processed records of a repartition topic."""

import logging
import threading
from types import SimpleNamespace

import pytest

from streamactors.kafka.errors import NoBroker
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.state.topic_upkeep import TopicUpkeep


@pytest.mark.parametrize("ended", [True, False], ids=["its run has ended", "its run goes on"])
def test_a_broker_that_is_gone_is_logged_unless_the_run_has_ended_meanwhile(ended, caplog):
    """A run that ended with its broker logged "is retried" ten seconds later, and retried nothing."""
    upkeep = TopicUpkeep(ConsumerSettings("localhost:1", "g"), "t", purged=1)
    logged = threading.Event()

    def refuse(*_):
        if ended:
            upkeep.stop()
        raise NoBroker("no broker at localhost:1")

    upkeep._admin = SimpleNamespace(committed=refuse)
    caplog.handler.addFilter(lambda _: logged.set() or True)
    with caplog.at_level(logging.WARNING, "streamactors.kafka"):
        upkeep.start()
        assert ended or logged.wait(10)
        upkeep.stop()
        upkeep._thread.join(10)
    said = [record.getMessage() for record in caplog.records if "upkeep" in record.getMessage()]
    assert said == ([] if ended else ["t: upkeep of the topic failed and is retried: no broker at localhost:1"])
