"""Brokers and a controller that log in to each other by OAUTHBEARER, with tokens of a provider."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.broker.controller_apis.three_brokers import ThreeBrokers
from tests.broker.live_broker import batch
from tests.broker.server.three_controllers import ThreeControllers
from tests.broker.wire import WireClient, wait_until

pytest.importorskip("joserfc")
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

KEY = RSAKey.generate_key(2048, {"kid": "one"})


def token(life_s: float, user: str = "node") -> str:
    now = time.time()
    return jwt.encode({"alg": "RS256", "kid": "one"}, {"sub": user, "iat": now, "exp": now + life_s}, KEY)


class Provider:
    """Gives tokens of a life in seconds, and counts who asked."""

    def __init__(self) -> None:
        self.life_s = 3_600.0
        self.asked: Counter[str] = Counter()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                provider.asked[base64.b64decode(self.headers["Authorization"].split()[1]).decode()] += 1
                body = json.dumps({"access_token": token(provider.life_s), "token_type": "bearer"}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/token"


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join(10)


def settings(folder: Path, url: str) -> dict[str, str]:
    keys = folder / "keys.json"
    keys.write_text(json.dumps(KeySet([KEY]).as_dict(private=False)))
    return {
        "listener_security_protocol_map": "CONTROLLER:SASL_PLAINTEXT",
        "inter_broker_listener_name": "SASL_PLAINTEXT",
        "sasl_enabled_mechanisms": "OAUTHBEARER",
        "sasl_mechanism_inter_broker_protocol": "OAUTHBEARER",
        "sasl_mechanism_controller_protocol": "OAUTHBEARER",
        "sasl_oauthbearer_jwks_endpoint_url": keys.as_uri(),
        "sasl_oauthbearer_token_endpoint_url": url,
        **{
            f"listener_name_{listener}_oauthbearer_sasl_jaas_config": 'OAuthBearerLoginModule required clientId="nodes" clientSecret="s e";'
            for listener in ("sasl__plaintext", "controller")
        },
    }


def client_of(brokers: ThreeBrokers) -> WireClient:
    client = WireClient("127.0.0.1", brokers.brokers[1].port)
    assert client.call(17, 1, {"mechanism": "OAUTHBEARER"}).error_code == 0
    message = f"n,,\x01auth=Bearer {token(3_600, 'ann')}\x01\x01".encode()
    assert client.call(36, 2, {"auth_bytes": message}).error_code == 0
    return client


def create_everywhere(client: WireClient, name: str) -> None:
    topic = {"name": name, "num_partitions": 1, "replication_factor": -1}
    topic["assignments"] = [{"partition_index": 0, "broker_ids": (1, 2, 3)}]
    topic["num_partitions"] = -1
    (made,) = client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000}).topics
    assert made.error_code == 0, made.error_message


def produce(client: WireClient, name: str) -> None:
    """With acks=all: every replica has logged in to the leader to fetch."""
    data = [{"name": name, "partition_data": [{"index": 0, "records": batch(b"v")}]}]
    (topic,) = client.call(0, 9, {"acks": -1, "timeout_ms": 30_000, "topic_data": data}).responses
    assert topic.partition_responses[0].error_code == 0


def test_nodes_log_in_to_each_other_by_tokens(tmp_path: Path, provider: Provider) -> None:
    with ThreeBrokers(tmp_path, "SASL_PLAINTEXT", **settings(tmp_path, provider.url)) as brokers:
        with client_of(brokers) as client:
            create_everywhere(client, "t")
            produce(client, "t")
        brokers.await_partition("t", lambda found: set(found.isr) == {1, 2, 3}, "every replica is in sync")
        controllers = brokers.brokers[1].on_data_plane(
            lambda: [each.principal for each in brokers.brokers[1].node.processor.connections.values()]
        )
        assert set(controllers) <= {"User:node", "User:ann"}
        assert "User:node" in controllers
    assert set(provider.asked) == {"nodes:s e"}
    assert sum(provider.asked.values()) <= 6, "each node keeps a token for brokers and one for controllers"


@pytest.mark.slow
def test_nodes_renew_their_tokens_and_log_in_again(tmp_path: Path, provider: Provider) -> None:
    provider.life_s = 1.5
    with ThreeBrokers(tmp_path, "SASL_PLAINTEXT", **settings(tmp_path, provider.url)) as brokers:
        with client_of(brokers) as client:
            create_everywhere(client, "t")
            wait_until(lambda: sum(provider.asked.values()) >= 12)
            produce(client, "t")
            create_everywhere(client, "u")
            produce(client, "u")
        brokers.await_partition("u", lambda found: set(found.isr) == {1, 2, 3}, "every replica is in sync")


def test_a_token_is_taken_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token(3_600) + "\n")
    with ThreeBrokers(tmp_path, "SASL_PLAINTEXT", **settings(tmp_path, file.as_uri())) as brokers:
        with client_of(brokers) as client:
            create_everywhere(client, "t")
            produce(client, "t")


def test_voters_elect_a_leader_and_replace_it_with_logins_by_tokens(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token(3_600))
    given = {**settings(tmp_path, file.as_uri()), "listener_security_protocol_map": "CONTROLLER:SASL_PLAINTEXT"}
    for name in ("inter_broker_listener_name", "sasl_mechanism_inter_broker_protocol"):
        del given[name]
    given = {name: value for name, value in given.items() if "sasl__plaintext" not in name}
    with ThreeControllers(tmp_path, roles="controller", **given) as voters:
        first = voters.leader()
        voters.stop(first)
        assert voters.leader() != first
