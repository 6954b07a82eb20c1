"""segmentio/kafka-go's own tests against this broker: connections, readers, writers, groups, administration, transactions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from tests.compat.go_modules import go_source, go_tests, outcomes
from tests.compat.support import allowed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

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

var testBrokerHost, testBrokerPort = func() (string, int) {
	host, port, _ := net.SplitHostPort(testBroker)
	number, _ := strconv.Atoi(port)
	return host, number
}()
"""
GET_OFFSETS = "\t\t\tDialer:  config.Dialer,\n"


def for_any_address(source: Path) -> None:
    """Let the suite find the broker at KAFKA_BROKER instead of localhost:9092.

    `getOffsets` also gets the connect function that it forgets, and topics are looked for every 100 ms instead of every 6 s."""
    for path in set(source.glob("*_test.go")) - {source / "address_test.go"}:
        text = path.read_text()
        if "package kafka\n" not in text:
            continue  # examples, as another package sees this one
        text = re.sub(r'(?<!": \{)"(localhost|127\.0\.0\.1):9092"', "testBroker", text)
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


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    source = go_source("github.com/segmentio/kafka-go", VERSION, for_any_address)
    program = go_tests(source)
    only = "|".join(sorted({f"^{name.partition('/')[0]}$" for name in allowed("kafka_go")}))
    with Cluster(process=True, config=SETTINGS, advertise="127.0.0.1:0") as cluster:
        env = {"KAFKA_BROKER": cluster.bootstrap_servers, "KAFKA_VERSION": KAFKA_VERSION}
        found, told = outcomes(program, source, f"-test.run={only}", env=env, timeout_s=600)
    assert found, told[-3000:]
    return found


@pytest.mark.parametrize("name", allowed("kafka_go"))
def test_passes(results: dict[str, str], name: str) -> None:
    assert results.get(name) == "PASS"
