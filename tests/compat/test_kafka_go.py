"""segmentio/kafka-go's own tests against this broker: connections, readers, writers, groups, administration, transactions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from streamactors.broker import Cluster
from tests.compat.go_modules import go_source, go_tests, outcomes
from tests.compat.support import allowed

pytestmark = [
    pytest.mark.compat,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    # the suite logs in by a mechanism that no broker has, and with wrong passwords
    pytest.mark.expects_log("no login by SASL FOO", "closed: its login failed ("),
]

VERSION = "v0.4.51"
# what the suite asks of a broker
SETTINGS = {"num.partitions": 1, "group.initial.rebalance.delay.ms": 0, "message.max.bytes": 200_000_000}
# tests of transactions skip themselves for Apache Kafka 3 and later: there they meet coordinators that still load
KAFKA_VERSION = "2.8.1"
BROKER = """\
package kafka

import (
	"net"
	"os"
	"strconv"
	"time"
)

func init() {
	DefaultTransport.(*Transport).MetadataTTL = 100 * time.Millisecond
}

var testBroker = os.Getenv("KAFKA_BROKER")

var loginBroker = os.Getenv("KAFKA_LOGIN_BROKER")

var testBrokerHost, testBrokerPort = func() (string, int) {
	host, port, _ := net.SplitHostPort(testBroker)
	number, _ := strconv.Atoi(port)
	return host, number
}()
"""
GET_OFFSETS = "\t\t\tDialer:  config.Dialer,\n"


def for_any_address(source: Path) -> None:
    """Let the suite find the broker at KAFKA_BROKER instead of localhost:9092, and its listener with logins at KAFKA_LOGIN_BROKER.

    `getOffsets` also gets the connect function that it forgets, and topics are looked for every 100 ms instead of every 6 s."""
    for path in set(source.glob("*_test.go")) - {source / "address_test.go"}:
        text = path.read_text()
        if "package kafka\n" not in text:
            continue  # examples, as another package sees this one
        text = re.sub(r'(?<!": \{)"(localhost|127\.0\.0\.1):9092"', "testBroker", text)
        text = re.sub(r'"(localhost|127\.0\.0\.1):9093"', "loginBroker", text)
        text = text.replace('TCP("localhost")', "TCP(testBroker)").replace("const broker =", "var broker =")
        text = text.replace("\tconst (\n\t\ttcp   = ", "\tvar (\n\t\ttcp   = ")
        text = text.replace('Host: "localhost", Port: 9092', "Host: testBrokerHost, Port: testBrokerPort")
        text = re.sub(r'(b|Coordinator)\.Host != "localhost"', r"\1.Host != testBrokerHost", text)
        text = re.sub(r"(b|broker)\.Port != 9092", r"\1.Port != testBrokerPort", text)
        text = text.replace(
            GET_OFFSETS, f"{GET_OFFSETS}\t\t\tconnect: makeConnect(ConsumerGroupConfig{{Timeout: defaultTimeout}}),\n"
        )
        path.write_text(text)
    (source / "broker_test.go").write_text(BROKER)
    logins = source / "sasl" / "sasl_test.go"
    text = logins.read_text().replace("import (\n", 'import (\n\t"os"\n', 1).replace("const (", "var (", 1)
    logins.write_text(text.replace('"localhost:9093"', 'os.Getenv("KAFKA_LOGIN_BROKER")'))


def add_scram_users(address: str) -> None:
    """Set the passwords of the suite's user, which differ by mechanism."""
    admin = AdminClient({"bootstrap.servers": address})
    for mechanism, password in (("SCRAM_SHA_256", b"admin-secret-256"), ("SCRAM_SHA_512", b"admin-secret-512")):
        credential = ScramCredentialInfo(ScramMechanism[mechanism], 8192)
        change = UserScramCredentialUpsertion("adminscram", credential, password)
        admin.alter_user_scram_credentials([change])["adminscram"].result(30)


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    source = go_source("github.com/segmentio/kafka-go", VERSION, for_any_address)
    programs = [(go_tests(source), source), (go_tests(source, "./sasl"), source / "sasl")]
    only = "|".join(sorted({f"^{name.partition('/')[0]}$" for name in allowed("kafka_go")}))
    found, told = {}, ""
    listen = ["PLAINTEXT://127.0.0.1:0", "SASL_PLAINTEXT://127.0.0.1:0"]
    with Cluster(process=True, config=SETTINGS, listen=listen, users={"adminplain": "admin-secret"}) as cluster:
        plain, login = cluster.bootstrap_servers.split(",")
        add_scram_users(plain)
        env = {"KAFKA_BROKER": plain, "KAFKA_LOGIN_BROKER": login, "KAFKA_VERSION": KAFKA_VERSION}
        for program, folder in programs:
            passed, said = outcomes(program, folder, f"-test.run={only}", env=env, timeout_s=600)
            found.update(passed)
            told += said
    assert found, told[-3000:]
    return found


@pytest.mark.parametrize("name", allowed("kafka_go"))
def test_passes(results: dict[str, str], name: str) -> None:
    assert results.get(name) == "PASS"
