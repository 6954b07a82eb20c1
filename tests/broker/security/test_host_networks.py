"""Ranges of addresses in access control entries. The accepted hosts and the sentences are answers of Apache Kafka 4.4.0."""

from __future__ import annotations

import pytest

from streamactors.broker.security.host_networks import NotANetwork, contains, parse_network


@pytest.mark.parametrize(
    ("host", "inside", "outside"),
    [
        ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
        ("10.0.0.1/8", "10.9.9.9", "9.0.0.1"),
        ("10.0.0.0/08", "10.1.1.1", "11.0.0.1"),
        ("010.0.0.0/8", "10.1.1.1", "8.0.0.1"),
        ("10.0.0.0/0", "203.0.113.9", "2001:db8::1"),
        ("127.0.0.1/32", "127.0.0.1", "127.0.0.2"),
        ("::/0", "2001:db8::1", "10.0.0.1"),
        ("fe80::/10", "fe80::1", "2001:db8::1"),
        ("fe80::1%eth0/64", "fe80::9%eth1", "fe81::1"),
        ("[::1]/64", "::2", "1::1"),
        ("2001:DB8::/32", "2001:db8:1::1", "2001:db9::1"),
        ("2001:db8:0:0:0:0:0:0/0032", "2001:db8::1", "::1"),
    ],
)
def test_a_range_has_the_addresses_that_begin_with_its_prefix(host: str, inside: str, outside: str) -> None:
    network = parse_network(host)
    assert contains(network, inside)
    assert not contains(network, outside)
    assert not contains(network, "a-host.example")


def test_an_address_of_ipv4_within_ipv6_is_that_address() -> None:
    assert contains(parse_network("10.0.0.0/8"), "::ffff:10.1.2.3")


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("999/99", "Could not parse [999/99]"),
        ("10.0.0.0/33", "Value [33] not in range [0,32]"),
        ("256.1.1.1/8", "Value [256] not in range [0,255]"),
        ("10.0.0.0/", "Could not parse [10.0.0.0/]"),
        ("/8", "Could not parse [/8]"),
        ("/", "Could not parse [/]"),
        ("a/b", "Could not parse [a/b]"),
        ("10.0.0.0/+8", "Could not parse [10.0.0.0/+8]"),
        (" 10.0.0.0/8", "Could not parse [ 10.0.0.0/8]"),
        ("10.0.0.0/8 ", "Could not parse [10.0.0.0/8 ]"),
        ("10.0.0.0/8/8", "Could not parse [10.0.0.0/8/8]"),
        ("10.0.0/8", "Could not parse [10.0.0/8]"),
        ("localhost/8", "Could not parse [localhost/8]"),
        ("::1/129", "Could not parse [::1/129] - prefix length must be between 0 and 128"),
        ("::/", "Could not parse [::/] - invalid prefix length"),
        ("::g/8", "Could not parse [::g]"),
        ("1::2::3/8", "Could not parse [1::2::3]"),
        ("::ffff:10.0.0.0/104", "Could not parse [::ffff:10.0.0.0] - not an IPv6 address"),
    ],
)
def test_what_is_no_range_is_refused_with_the_reason(host: str, why: str) -> None:
    with pytest.raises(NotANetwork) as error:
        parse_network(host)
    assert str(error.value) == why
