"""Why an existing broker refuses a client: the signs in librdkafka's log, and the sentence and the way out for each.

Owner: `ClientConnection`, which passes every line of the log to its `ListenerSigns`. A client meets several signs in a row, and the clearest one counts."""

from __future__ import annotations

import re
from typing import Final

from streamactors.kafka.errors import NoBroker
from streamactors.kafka.property_rules import Address

_ENDED: Final = "the broker ends the connection; its listener may want TLS or a login, see security.protocol"
_MECHANISM: Final = "mechanism handshake failed"
_OFFERED: Final = re.compile(r"SASL (\S+) mechanism handshake failed.*supported mechanisms: ([\w,\-]+)")
_SIGNS: Final = (
    (_MECHANISM, "the broker does not offer this login; check sasl.mechanism"),
    (
        "SASL authentication error",
        "the broker refuses the login; check sasl.username, sasl.password and sasl.mechanism",
    ),
    (
        "acquire SASL OAUTHBEARER token",
        "no token for the login; check oauth_cb, or sasl.oauthbearer.… and the provider",
    ),
    ("certificate has expired", "the broker's certificate has expired; its owner must renew it"),
    ("certificate verify failed", "the broker's certificate is not trusted; give its authority by ssl.ca.location"),
    (
        "certificate required",
        "the broker wants a certificate of the client; give ssl.certificate.location and ssl.key.location",
    ),
    ("connecting to a PLAINTEXT", "the listener has no TLS; set security.protocol to PLAINTEXT or SASL_PLAINTEXT"),
    ("wrong version number", "the listener has no TLS; set security.protocol to PLAINTEXT or SASL_PLAINTEXT"),
    (
        "connecting to a SSL listener",
        "the listener wants TLS or a login; set security.protocol to SSL, SASL_SSL or SASL_PLAINTEXT",
    ),
    ("in current SASL state", "the listener has no logins; set security.protocol to PLAINTEXT or SSL"),
    ("SSL handshake failed", "the handshake of TLS failed; see security.protocol and ssl.*"),
    ("incorrect or not initialized", "what answers is no Kafka broker; check the port"),
    ("Invalid response size", "what answers is no Kafka broker; check the port"),
    ("Disconnected: connection closed by peer", _ENDED),
)
_ENDED_ALONE: Final = len(_SIGNS) - 1
"""The number of the least clear sign."""


class ListenerSigns:
    """The clearest sign that was seen since the broker answered last."""

    def __init__(self) -> None:
        self._clearest: tuple[int, str] | None = None  # the number of the sign in _SIGNS, and the line of the log

    def look(self, line: str) -> None:
        """Keep the sign in a line of librdkafka's log, if it has one."""
        sign = next((number for number, (sign, _) in enumerate(_SIGNS) if sign in line), None)
        if sign is not None and (self._clearest is None or sign < self._clearest[0]):
            self._clearest = (sign, line.rpartition("]: ")[2])

    def opened(self) -> None:
        """The broker has answered."""
        self._clearest = None

    @property
    def is_closed(self) -> bool:
        """Whether the broker refuses this client. A connection that only ended may belong to a broker that is starting."""
        return self._clearest is not None and self._clearest[0] < _ENDED_ALONE

    def sentence(self) -> str | None:
        """Return what the clearest sign means, None without a sign."""
        if self._clearest is None:
            return None
        number, line = self._clearest
        offered = _OFFERED.search(line)
        if offered is not None:
            tried, offers = offered.groups()
            return f"the broker has no login by {tried}; it offers {offers.replace(',', ', ')}: set sasl.mechanism to one of them"
        return f"{_SIGNS[number][1]} ({shortened(line)})"


def not_kafka(address: Address, waited_s: float) -> NoBroker:
    """Return the error of a port that takes connections and is silent."""
    return NoBroker(
        f"something listens at {address} but has not answered as a Kafka broker for {waited_s:.1f} s; check the port and "
        "security.protocol"
    )


def shortened(complaint: str) -> str:
    """Return a complaint of librdkafka without its address and its times."""
    return re.sub(r"\s*\(after \d+ms.*", "", complaint.partition(": ")[2] or complaint)[:300]
