"""Requests to a cluster that librdkafka does not have: those of `streamactors transactions` and `streamactors quotas`.

Owner: one command, or the page that reads a cluster. It has a connection to each broker that it asks. The versions
used are the highest that every broker since Apache Kafka 2.4 (DescribeTransactions: 3.0) serves."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.security.client_credentials import credentials_of
from streamactors.broker.security.client_login import UnknownMechanism
from streamactors.broker.security.sasl.mechanism import AuthenticationFailed
from streamactors.broker.wire_connection import NoKafka, NotConnected, TlsFailed, WireConnection
from streamactors.kafka.client.diagnosis.listener_probe import fault_of
from streamactors.kafka.client.diagnosis.listener_signs import ListenerSigns, not_kafka
from streamactors.kafka.client.diagnosis.refused_properties import check_files, check_token
from streamactors.kafka.errors import KafkaError, NoBroker
from streamactors.kafka.property_rules import Address, addresses_of

CONNECT_TIMEOUT_S: Final = 2.0
FIRST_ANSWER_TIMEOUT_S: Final = 4.0
"""A connection whose first request is not answered for this long does not lead to a broker."""
ANSWER_TIMEOUT_S: Final = 10.0
RETRY_S: Final = 0.1

GROUP, TRANSACTION = 0, 1
METADATA, FIND_COORDINATOR, API_VERSIONS = 3, 10, 18

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Refused(KafkaError):
    """The broker answered with an error; `code` is Kafka's."""

    def __init__(self, what: str, code: int) -> None:
        known = ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
        super().__init__(f"{what}: {known.name.replace('_', ' ').lower()}")
        self.code = known


class ClusterRequests:
    """Sends requests to a cluster. Raises NoBroker if no broker answers, or if TLS or the login fails."""

    def __init__(self, bootstrap_servers: str, properties: Mapping[str, Any] | None = None) -> None:
        """`properties` are librdkafka's: `security.protocol`, `ssl.*`, `sasl.*`, `oauth_cb`. Raises BuildError, KafkaError."""
        properties = properties or {}
        check_files("command", properties)
        check_token("command", properties)
        self._bootstrap = properties.get("bootstrap.servers", bootstrap_servers)
        self._credentials = credentials_of(properties)
        self._properties = properties
        self._connections: dict[Address, WireConnection] = {}
        self._brokers: dict[int, Address] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._connections.values():
            each.close()

    # -- where to ask -----------------------------------------------------------------------------------------------

    def metadata(self, topics: list[str] | None) -> Any:
        """Return the cluster's metadata, for some topics or for all."""
        asked = None if topics is None else [{"name": name} for name in topics]
        answer = self._anybody(METADATA, 5, {"topics": asked, "allow_auto_topic_creation": False})
        self._brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        return answer

    def topics_by_id(self, topics: Sequence[str]) -> Any:
        """Return the metadata of some topics, with the topics' ids (Apache Kafka 3.1 or newer)."""
        asked = [{"topic_id": None, "name": name} for name in topics]
        body = {"topics": asked, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
        return self._anybody(METADATA, 12, body)

    def versions(self) -> dict[int, int]:
        """Return the highest version of each API key that the cluster serves (Apache Kafka 2.4 or newer)."""
        body = {"client_software_name": "streamactors", "client_software_version": "0"}
        answer = self._anybody(API_VERSIONS, 3, body)
        return {each.api_key: each.max_version for each in answer.api_keys}

    def abort(self) -> None:
        """End all connections, also while another thread waits for an answer: that wait raises NoBroker."""
        for each in list(self._connections.values()):
            each.abort()

    def brokers(self) -> list[int]:
        """Return the ids of the brokers that are there, at least one. Raises NoBroker."""
        if not self._brokers:
            self.metadata([])
        if not self._brokers:
            raise NoBroker(
                f"{self._bootstrap}: the cluster names no broker; wait until one has registered, or look into its log"
            )
        return sorted(self._brokers)

    def call(self, broker: int, key: int, version: int, body: Mapping[str, Any]) -> Any:
        """Send a request to a broker by its id, and return the answer."""
        if broker not in self._brokers:
            self.metadata([])
        address = self._brokers.get(broker)
        if address is None:
            raise NoBroker(
                f"{self._bootstrap}: broker {broker} is not in the cluster now; its brokers are {sorted(self._brokers)}"
            )
        return self._call(address, key, version, body)

    def coordinator(self, kind: int, name: str) -> tuple[str, int, int]:
        """Return the host, port and id of the broker that coordinates a group or transactional id."""
        give_up = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            found = self._anybody(FIND_COORDINATOR, 2, {"key": name, "key_type": kind})
            if found.error_code == ErrorCode.NONE:
                return found.host, found.port, found.node_id
            if found.error_code not in _RETRIABLE or time.monotonic() > give_up:
                raise Refused(f"the coordinator of {name!r}", found.error_code)
            time.sleep(RETRY_S)

    def call_coordinator(self, kind: int, name: str, key: int, version: int, body: Mapping[str, Any]) -> Any:
        """Send a request to the coordinator of a group or transactional id, and return the answer."""
        host, port, _ = self.coordinator(kind, name)
        return self._call(Address(host, port), key, version, body)

    def retried(self, ask: Any, error_of: Any) -> Any:
        """Repeat the request until the coordinator has loaded its state, which takes a moment after its start."""
        give_up = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            answer = ask()
            if error_of(answer) not in _RETRIABLE or time.monotonic() > give_up:
                return answer
            time.sleep(RETRY_S)

    # -- connections ------------------------------------------------------------------------------------------------

    def _anybody(self, key: int, version: int, body: Mapping[str, Any]) -> Any:
        failure: NoBroker | None = None
        for address in addresses_of(self._bootstrap):
            try:
                return self._call(address, key, version, body)
            except NoBroker as error:
                failure = error
        assert failure is not None
        raise failure

    def _call(self, address: Address, key: int, version: int, body: Mapping[str, Any]) -> Any:
        known = self._connections.get(address)
        try:
            connection = known or self._connect(address)
            answer = connection.ask((key, version), body)
        except (OSError, Refusal, AuthenticationFailed, MalformedMessage) as error:
            if (broken := self._connections.pop(address, None)) is not None:
                broken.close()
            raise self._told(address, error, known is not None) from None
        connection.wait_up_to(ANSWER_TIMEOUT_S)
        return answer

    def _connect(self, address: Address) -> WireConnection:
        made = WireConnection(*address, self._credentials, CONNECT_TIMEOUT_S, FIRST_ANSWER_TIMEOUT_S)
        self._connections[address] = made
        return made

    def _told(self, address: Address, error: Exception, answered: bool) -> KafkaError:
        """Return the error of a connection that failed, as for librdkafka's clients. `answered`: the connection has worked before."""
        signs = ListenerSigns()
        if isinstance(error, UnknownMechanism):
            signs.look(
                f"SASL {error.mechanism} mechanism handshake failed: supported mechanisms: {','.join(error.offered)}"
            )
        elif isinstance(error, Refusal | AuthenticationFailed):
            signs.look(f"SASL authentication error: {error}")
        elif isinstance(error, NoKafka | MalformedMessage):
            signs.look("Invalid response size")
        elif isinstance(error, TlsFailed):
            signs.look(str(error))
            if signs.sentence() is None:
                signs.look(f"SSL handshake failed: {error}")
        elif isinstance(error, NotConnected):
            return NoBroker(f"no broker at {error}; start one with: streamactors broker")
        elif answered:
            return NoBroker(f"the broker at {address} went away: {error}")
        elif isinstance(error, TimeoutError):
            return not_kafka(address, FIRST_ANSWER_TIMEOUT_S)
        else:
            signs.look("Disconnected: connection closed by peer")
        return NoBroker(f"{address}: {fault_of([address], self._properties) or signs.sentence()}")
