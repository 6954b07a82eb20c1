"""The credentials of a `Cluster(users=…, tls=…)`: the settings of its broker, its certificates, and the properties of its clients."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from streamactors.broker.cluster.acl import Acl
from streamactors.broker.config.listeners import parse_address
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.errors import BrokerStartError
from streamactors.broker.security.client_login import ListenerCredentials

AUTHORISER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
OWNER: Final = "streamactors-cluster"
"""The user of the Cluster object itself, a super user with a password made for one run."""
MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class ClusterCredentials:
    """The users, the listeners and the certificates of one Cluster. `close` removes the certificates."""

    def __init__(
        self, users: Mapping[str, str], tls: bool, acls: Iterable[Acl] | None, addresses: Iterable[str] = ()
    ) -> None:
        """`addresses` are those that clients connect to: the certificate names their hosts beside those of loopback."""
        for name, password in users.items():
            if not name or not password or any(char in f"{name}{password}" for char in '",[]\\\0\n'):
                raise BrokerStartError(
                    f'user {name!r}: in a Cluster, a name and a password must not be empty, nor contain " , [ ] or \\'
                )
        self.users = dict(users)
        self.acls = None if acls is None else [each.as_words() for each in acls]
        self.protocol = ("SASL_" if users else "") + ("SSL" if tls else "PLAINTEXT")
        self._owner_password = secrets.token_urlsafe(24)
        self._owner_mechanism = "PLAIN"
        self._folder: Path | None = make_certificates(hosts=_hosts(addresses)) if tls else None
        # at the latest with this process: the folder has the broker's key
        self._removal = weakref.finalize(self, _remove, os.getpid(), self._folder)

    @property
    def authority(self) -> Path | None:
        """The file with the certificate that signs the broker's; None without TLS."""
        return None if self._folder is None else self._folder / "ca.pem"

    def settings(self) -> dict[str, str]:
        """Return the broker's settings."""
        made: dict[str, str] = {}
        if self._folder is not None:
            made["ssl.keystore.location"] = str(self._folder / "server.pem")
        if self.users:
            everyone = {**self.users, OWNER: self._owner_password}
            options = " ".join(f'user_{name}="{password}"' for name, password in everyone.items())
            made["sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
            made["plain.sasl.jaas.config"] = f"PlainLoginModule required {options};"
        if self.acls is not None:
            made["authorizer.class.name"] = AUTHORISER
            made["super.users"] = f"User:{OWNER}"
        return made

    def with_given(self, made: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a Cluster: those that are made for it, and those that are given, in which the Cluster itself keeps its access.

        Raises BrokerStartError for a given setting that would take it away."""
        merged = {**made, **given}
        if not self.users:
            return merged
        if "plain.sasl.jaas.config" in given:
            raise BrokerStartError(
                "Cluster(users=…, config={'plain.sasl.jaas.config': …}): the Cluster makes this setting of its users; leave one of the two out"
            )
        if merged.get("authorizer.class.name"):
            others = str(given.get("super.users", "")).strip().rstrip(";")
            merged["super.users"] = f"{others};User:{OWNER}" if others else f"User:{OWNER}"
        mechanisms = [each.strip() for each in str(merged["sasl.enabled.mechanisms"]).split(",") if each.strip()]
        if "PLAIN" not in mechanisms:
            scram = [each for each in MECHANISMS[:2] if each in mechanisms]
            if scram and "sasl.mechanism.inter.broker.protocol" not in merged:
                self._owner_mechanism = scram[0]
            else:  # the nodes log in to each other by PLAIN
                merged["sasl.enabled.mechanisms"] = ",".join([*mechanisms, "PLAIN"])
        return merged

    def between_nodes(self) -> dict[str, str]:
        """Return the settings with which several brokers and controllers connect to each other: as the owner, over TLS if clients use TLS."""
        made = {
            **self.settings(),
            "inter.broker.listener.name": self.protocol,
            "listener.security.protocol.map": f"CONTROLLER:{self.protocol}",
        }
        if self.authority is not None:
            made["ssl.truststore.location"] = str(self.authority)
        if self.users:
            made |= dict.fromkeys(
                ("sasl.mechanism.inter.broker.protocol", "sasl.mechanism.controller.protocol"), "PLAIN"
            )
            own = f'username="{OWNER}" password="{self._owner_password}"'
            made["plain.sasl.jaas.config"] = made["plain.sasl.jaas.config"].replace("required", f"required {own}", 1)
        return made

    def add_scram(self) -> list[str]:
        """Return the first credentials, in the form of `--add-scram`."""
        owner = {} if self._owner_mechanism == "PLAIN" else {OWNER: self._owner_password}
        return [
            f'{mechanism}=[name="{name}",password="{password}"]'
            for name, password in {**self.users, **owner}.items()
            for mechanism in MECHANISMS[:2]
        ]

    def listen(self, given: Sequence[str]) -> list[str]:
        """Return the listeners with the protocol in their names."""
        return [each if "://" in each else f"{self.protocol}://{each}" for each in given]

    def owner(self) -> ListenerCredentials:
        """Return how the Cluster object itself comes in."""
        authority = None if self.authority is None else str(self.authority)
        return (
            ListenerCredentials(authority, self._owner_mechanism, OWNER, self._owner_password)
            if self.users
            else ListenerCredentials(authority)
        )

    def client_properties(self, user: str | None, mechanism: str) -> dict[str, str]:
        """Return the properties of a client. Raises BrokerStartError for an unknown user or mechanism."""
        made = {"security.protocol": self.protocol}
        if self.authority is not None:
            made["ssl.ca.location"] = str(self.authority)
        if not self.users:
            return made
        if user not in self.users:
            raise BrokerStartError(f"there is no user {user!r} in this Cluster; it has {', '.join(self.users)}")
        if mechanism not in MECHANISMS:
            raise BrokerStartError(
                f"there is no mechanism {mechanism!r} in this Cluster; it has {', '.join(MECHANISMS)}"
            )
        return {
            **made,
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": self.users[user],
        }

    def close(self) -> None:
        """Remove the certificates."""
        self._removal()

    def check_open(self) -> None:
        """Raise BrokerStartError if the certificates have been removed."""
        if self._folder is not None and not self._removal.alive:
            raise BrokerStartError(
                "this Cluster was closed, and its certificates with it; make another Cluster to start again"
            )


def _remove(pid: int, folder: Path | None) -> None:
    """Remove the folder if this process made it: a fork that ends must leave its parent's."""
    if folder is not None and os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


def _hosts(addresses: Iterable[str]) -> list[str]:
    """Return the hosts of loopback and of these addresses. A wrong address is left out: the start reports it, not the certificate."""
    hosts = list(LOOPBACK)
    for each in addresses:
        try:
            host = parse_address("listeners", each)[1]
        except InvalidSetting:
            continue
        if host not in ("", *hosts):
            hosts.append(host)
    return hosts


def make_certificates(folder: Path | None = None, hosts: Sequence[str] = LOOPBACK) -> Path:
    """Make an authority (`ca.pem`) and a broker's certificate with its key (`server.pem`); return their folder.

    For tests and laptops. Raises BrokerStartError if the package trustme is missing."""
    try:
        import trustme
    except ImportError:
        raise BrokerStartError(
            "making certificates needs the package trustme: pip install 'streamactors[tls]'"
        ) from None
    made = folder if folder is not None else Path(tempfile.mkdtemp(prefix="streamactors-tls-"))
    made.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(made / "ca.pem")
    server = made / "server.pem"
    server.touch(mode=0o600)
    authority.issue_cert(*hosts).private_key_and_cert_chain_pem.write_to_path(server)
    return made
