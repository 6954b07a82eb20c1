"""Every command line in deploy/ is one that `streamactors` takes, and every variable and setting in it exists."""

from __future__ import annotations

import re

import click
import pytest

from streamactors.cli.durations import SECONDS
from tests.cli.command_line import parsed
from tests.deploy.files import DEPLOY, ROOT, Started, started

EVERY = started()


@pytest.mark.parametrize("process", EVERY, ids=lambda process: process.where)
def test_the_command_line_is_understood(process: Started) -> None:
    context = parsed(process.arguments)
    if context.info_name == "run":
        assert (DEPLOY / "pipeline" / context.params["graph"].rpartition("/")[2].partition(":")[0]).exists()


@pytest.mark.parametrize("process", EVERY, ids=lambda process: process.where)
def test_a_process_has_longer_to_end_than_its_drain_takes(process: Started) -> None:
    context = parsed(process.arguments)
    if context.info_name != "run" or process.kept_s is None:
        return
    drain_s = context.params["drain_timeout"]
    assert drain_s == SECONDS.convert(drain_s, None, None)
    assert process.kept_s >= drain_s + 10, "the commit and the closing of the state come after the drain"


def test_a_line_that_is_wrong_is_found() -> None:
    with pytest.raises(click.UsageError, match="--metrics"):
        parsed(["broker", "--metrics=1"])
    with pytest.raises(click.UsageError, match="no command"):
        parsed(["brokers"])


@pytest.mark.parametrize("process", EVERY, ids=lambda process: process.where)
def test_every_variable_is_read_by_somebody(process: Started) -> None:
    pipeline = (DEPLOY / "pipeline" / "orders.py").read_text()
    package = "\n".join(path.read_text() for path in (ROOT / "streamactors" / "cli").rglob("*.py"))
    for name in process.environment:
        if name.startswith("STREAMACTORS_KAFKA_"):
            continue  # a property of librdkafka
        assert f'"{name}"' in pipeline or f'"{name}"' in package or name.startswith("PYTHON"), name
    assert set(re.findall(r'environ\.get\("(\w+)"', pipeline)) <= {"STREAMACTORS_BOOTSTRAP", "INSTANCE", "STATE_FOLDER"}


def test_the_settings_of_brokers_exist() -> None:
    from streamactors.broker.launch.startup import assemble, parse_setting

    lines = [parsed(process.arguments) for process in EVERY]
    brokers = [line.params for line in lines if line.info_name == "broker"]
    assert len(brokers) >= 4
    for params in brokers:
        settings = dict(parse_setting(each) for each in params["settings"])
        assembled = assemble(
            listen=params["listen"], advertise=params["advertise"], data=None, properties=None, settings=settings
        )
        try:
            assert not settings.keys() & assembled.config.without_effect.keys()
        finally:
            assembled.discard()
