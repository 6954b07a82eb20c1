"""Addresses of brokers in a text: what is read, and what is refused with the reason."""

from __future__ import annotations

import pytest

from streamactors.errors import BuildError
from streamactors.kafka.property_rules import LARGEST_PORT, Address, addresses_of


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("localhost:9092", [Address("localhost", 9092)]),
        ("a:1, b:65535", [Address("a", 1), Address("b", LARGEST_PORT)]),
        ("[::1]:9092", [Address("::1", 9092)]),
        ("PLAINTEXT://a:9092", [Address("a", 9092)]),
        ("sasl_ssl://a:9092/", [Address("a", 9092)]),
        ("broker_1.example-2.org:9092", [Address("broker_1.example-2.org", 9092)]),
    ],
)
def test_an_address_is_read(text: str, read: list[Address]) -> None:
    assert addresses_of(text) == read
    assert addresses_of(",".join(map(str, read))) == read


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must be 'host:port', got ''"),
        ("  ", "must be 'host:port', got '  '"),
        (None, "must be 'host:port', got None"),
        ("user:secret@a:9092", "without a user"),
        ("http://a:9092", "'http://a:9092' is not an address: leave out http://"),
        ("a", "'a' has no port; give a:9092 if it is the usual one"),
        ("::1", "'::1' has no port; give [::1]:9092 if it is the usual one"),
        ("a:9092,", "'' has no port; its form is host:port"),
        (":9092", "'' is not a host name"),
        ("a b:9092", "'a b' is not a host name"),
        ("a:9092/", "'9092/' is not a port"),
        ("SSL://a:9092//", "'9092/' is not a port"),
        ("a:0", "'0' is not a port (1 to 65535)"),
        ("a:65536", "'65536' is not a port"),
        ("a:+1", "'+1' is not a port"),
        ("a:٣", "'٣' is not a port"),
        ("a:", "'' is not a port"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(text: object, why: str) -> None:
    with pytest.raises(BuildError) as refused:
        addresses_of(text)
    assert why in str(refused.value)
