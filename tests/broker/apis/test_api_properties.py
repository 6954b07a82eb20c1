"""What an API says of itself decides where it is served: a new file is all that a new API needs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from streamactors.broker import apis, controller_apis
from streamactors.broker.requests.api import Routes

APIS = Routes.of_package(apis)
CONTROLLER_APIS = Routes.of_package(controller_apis, beside=APIS)
OF_APACHE_KAFKA = {19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81, 94}
"""What Apache Kafka's brokers forward (KafkaApis.scala), as far as it is served here."""


@pytest.mark.parametrize("said", ["forwarded=True", "on_controllers=True", ""])
def test_a_new_api_that_says_so_is_served_on_the_listener_for_controllers(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "api99_new.py").write_text(
        "from streamactors.broker.requests.api import Api\n"
        f"API = Api(key=99, versions=(0, 1), authorise=print, handle=print, {said})"
    )
    monkeypatch.setattr(apis, "__path__", [*apis.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "streamactors.broker.apis.api99_new", raising=False)
    routes = Routes.of_package(controller_apis, beside=Routes.of_package(apis))
    assert (routes.get(99) is not None) == bool(said)
    assert ((99, 0, 1) in routes.ranges) == bool(said)


def test_a_broker_forwards_what_a_broker_of_apache_kafka_forwards() -> None:
    assert {key for key in APIS.keys if getattr(APIS.get(key), "forwarded", False)} == OF_APACHE_KAFKA


def test_a_listener_for_controllers_serves_its_own_apis_first() -> None:
    assert CONTROLLER_APIS.get(1) is not APIS.get(1)
    assert CONTROLLER_APIS.get(19) is APIS.get(19)
    assert CONTROLLER_APIS.get(0) is None


def test_no_request_between_nodes_waits_for_the_bytes_of_others() -> None:
    only_between = {key for key, _, _ in Routes.of_package(controller_apis).ranges} - {58, 60}  # of clients
    assert all(api.between_nodes for key in only_between if (api := CONTROLLER_APIS.get(key)) is not None)
    assert not any(api.between_nodes for key in OF_APACHE_KAFKA if (api := APIS.get(key)) is not None)
