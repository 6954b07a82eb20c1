"""Sentences for the properties that librdkafka refuses or ignores: each names the property, its value where it is no secret, and the way out.

Owner: `ClientConnection`, when it makes a client."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from streamactors.kafka.client.diagnosis.property_names import unknown_property
from streamactors.kafka.errors import KafkaError

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_log = logging.getLogger("streamactors.kafka")
_FILES: Final = re.compile(r"(ssl|https)\.[a-z.]+\.location|sasl\.kerberos\.keytab")
_BUILT_IN: Final = "probe"
"""librdkafka looks for the system's certificates itself."""
_UNKNOWN: Final = re.compile(r'No such configuration property: "(.*)"')
_UNREADABLE: Final = re.compile(r"(ssl\.[a-z.]+\.location|ssl\.[a-z]+\.pem) failed")
_MECHANISM: Final = re.compile(r"(?:Unsupported SASL mechanism:|No provider for SASL mechanism) (\S+?)(?:$|:)")
_said: set[str] = set()


def check_files(kind: str, properties: Mapping[str, Any]) -> None:
    """Raise KafkaError for a property that names a file which is not there or cannot be read."""
    for name, value in properties.items():
        if not _FILES.fullmatch(name) or not isinstance(value, str) or not value or value == _BUILT_IN:
            continue
        try:
            if not os.path.isdir(value):
                open(value, "rb").close()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise KafkaError(f"{kind} settings: {name}={value} cannot be read ({why})") from None


def check_token(kind: str, properties: Mapping[str, Any]) -> None:
    """Raise KafkaError for a login by OAUTHBEARER without a token: librdkafka would wait for one silently."""
    mechanism = str(properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "").upper()
    if mechanism == "OAUTHBEARER" and not any(name.startswith(("oauth_cb", "sasl.oauthbearer")) for name in properties):
        raise KafkaError(f"{kind} settings: the login by OAUTHBEARER has no token; give oauth_cb or sasl.oauthbearer.…")


def told_refusal(complaint: str, properties: Mapping[str, Any]) -> str:
    """Return librdkafka's complaint about a property as a sentence with the way out."""
    unknown = _UNKNOWN.search(complaint)
    if unknown is not None:
        return unknown_property(unknown[1])
    unreadable = _UNREADABLE.search(complaint)
    if unreadable is not None:
        name = unreadable[1]
        value = f"={properties[name]}" if name.endswith(".location") and name in properties else ""
        advice = "; check ssl.key.password, too" if ".key" in name or "keystore" in name else ""
        return f"{name}{value} is no PEM file that can be used ({complaint.rpartition(': ')[2]}){advice}"
    mechanism = _MECHANISM.search(complaint)
    if mechanism is not None:
        near = get_close_matches(mechanism[1].upper(), MECHANISMS, n=1, cutoff=0.5)
        meant = f"did you mean {near[0]}? " if near and near[0] != mechanism[1] else ""
        return f"{meant}sasl.mechanism={mechanism[1]} is not supported by this client; choose one of {', '.join(MECHANISMS)}"
    return complaint


def warn_once(line: str) -> None:
    """Warn of a property that librdkafka ignores, once in a process."""
    text = line[line.find("Configuration property ") :]
    if text not in _said:
        _said.add(text)
        _log.warning("%s", text)
