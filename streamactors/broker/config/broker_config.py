"""The broker's configuration: every supported setting, typed, immutable, with the source of each value.

Owner: the server, which replaces the whole object when a dynamic setting changes. Layers, highest first, as in Apache Kafka:
this broker's dynamic settings, the cluster's dynamic defaults, the static settings of the start, the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from streamactors.broker.config.client_settings import (
    ConsumerGroupSettings,
    GroupSettings,
    NetworkSettings,
    StreamsGroupSettings,
    TransactionSettings,
)
from streamactors.broker.config.cluster_settings import ClusterSettings
from streamactors.broker.config.log_settings import LogSettings
from streamactors.broker.config.node_settings import NodeSettings
from streamactors.broker.config.security_settings import LISTENER_PREFIX, PER_LISTENER, SecuritySettings
from streamactors.broker.config.setting import InvalidSetting, Setting
from streamactors.broker.config.share_settings import ShareSettings
from streamactors.broker.config.unsupported import WITHOUT_EFFECT, why_refused

Plain = str | int | float | bool | None


def plain_text(value: Plain) -> str:
    """Return the text of a setting's value, as Apache Kafka writes it: true, not True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


QUORUM_IN_LOG: Final = "streamactors.quorum.in.log"
"""Marks the static settings of a controller whose metadata log names the voters; `stored_quorum` sets it."""


class BrokerConfig(
    NodeSettings,
    NetworkSettings,
    SecuritySettings,
    LogSettings,
    GroupSettings,
    ConsumerGroupSettings,
    StreamsGroupSettings,
    TransactionSettings,
    ClusterSettings,
    ShareSettings,
):
    """All settings of a broker. Read them as attributes named as in Kafka with `_` for `.`: `config.num_partitions`."""

    __slots__ = ("cluster_dynamic", "node_dynamic", "static", "without_effect")

    static: Mapping[str, str]  # given at the start, by Kafka's name
    cluster_dynamic: Mapping[str, str]  # defaults for all brokers, from the metadata log
    node_dynamic: Mapping[str, str]  # this broker's own, from the metadata log
    without_effect: Mapping[str, str]  # accepted settings without effect, unknown names included, with the reason

    def __init__(
        self,
        static: Mapping[str, str],
        cluster_dynamic: Mapping[str, str],
        node_dynamic: Mapping[str, str],
        without_effect: Mapping[str, str],
    ) -> None:
        declared = self.declared()
        layered = {**static, **cluster_dynamic, **node_dynamic}
        super().__init__({name: declared[name].parse(text) for name, text in layered.items() if name in declared})
        self.static = static
        self.cluster_dynamic = cluster_dynamic
        self.node_dynamic = node_dynamic
        self.without_effect = without_effect

    @classmethod
    def of(cls, settings: Mapping[str, Plain] | None = None) -> BrokerConfig:
        """Return the configuration of a broker started with `settings`, by Kafka's names.

        An unknown name is accepted without effect, as in Apache Kafka. Raises InvalidSetting for a value outside its limits
        and for a setting of a missing feature.
        """
        static: dict[str, str] = {}
        without_effect: dict[str, str] = {}
        for name, value in (settings or {}).items():
            if value is None:
                continue
            text = plain_text(value)
            if name in cls.declared() or _is_of_listener(name):
                static[name] = text
            elif name in WITHOUT_EFFECT:
                without_effect[name] = WITHOUT_EFFECT[name]
            elif (refused := why_refused(name)) is not None:
                raise InvalidSetting(f"{name}: {refused}", name=name, value=text)
            else:
                without_effect[name] = _unknown(name)
        config = cls(static, {}, {}, without_effect)
        _check_identity(config)
        return config

    def with_dynamic(self, cluster: Mapping[str, str], node: Mapping[str, str]) -> BrokerConfig:
        """Return the configuration with other dynamic settings. Dynamic settings without effect are ignored."""
        declared = self.declared()
        known_cluster = {name: text for name, text in cluster.items() if name in declared}
        known_node = {name: text for name, text in node.items() if name in declared}
        return type(self)(self.static, known_cluster, known_node, self.without_effect)

    @property
    def effective_node_id(self) -> int:
        """Return node.id, or broker.id if only the old name is given."""
        return self.broker_id if "node.id" not in self.values and self.broker_id >= 0 else self.node_id

    @property
    def data_folder(self) -> str | None:
        """Return the folder with the metadata log: metadata.log.dir, else the first of log.dirs, else log.dir; None for a temporary one."""
        return self.metadata_log_dir or next(iter(self._log_dirs), None)

    @property
    def data_folders(self) -> tuple[Path, ...]:
        """Return every data folder of a node that names several, with that of the metadata log; empty for a node with one."""
        folders = self._folders
        if self.metadata_apart:
            return (Path(self.metadata_log_dir or "").expanduser().absolute(), *folders)
        return folders if len(folders) > 1 else ()

    @property
    def metadata_apart(self) -> bool:
        """Whether metadata.log.dir is not one of log.dirs, so that it holds the metadata log and no partition."""
        folders = self._folders
        return (
            bool(folders and self.metadata_log_dir)
            and Path(self.metadata_log_dir or "").expanduser().absolute() not in folders
        )

    @property
    def _folders(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(Path(each).expanduser().absolute() for each in self._log_dirs))

    @property
    def _log_dirs(self) -> list[str]:
        return [each.strip() for each in (self.log_dirs or self.log_dir or "").split(",") if each.strip()]

    def of_listener(self, listener: str, name: str) -> str | None:
        """Return a static setting for a listener as a string: its own `listener.name.…`, else the general one; None if unset."""
        own = self.static.get(f"{LISTENER_PREFIX}{listener.lower()}.{name}")
        return own if own is not None else self.static.get(name)

    @property
    def is_member(self) -> bool:
        """Whether the controllers of this broker are other processes."""
        return "controller" not in self.process_roles

    @property
    def voters(self) -> Mapping[int, tuple[str, int]]:
        """Return (host, port) of each controller that has a vote, by id, as controller.quorum.voters names them. Raises InvalidSetting."""
        found: dict[int, tuple[str, int]] = {}
        for each in self.controller_quorum_voters:
            voter, at, address = each.strip().partition("@")
            host, _, port = address.rpartition(":")
            if not at or not voter.isdecimal() or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
                raise InvalidSetting(
                    f"controller.quorum.voters={each}: its form is id@host:port", name="controller.quorum.voters"
                )
            if int(voter) in found:
                raise InvalidSetting(
                    f"controller.quorum.voters: controller {voter} is named twice", name="controller.quorum.voters"
                )
            found[int(voter)] = host.strip("[]"), int(port)
        return found

    @property
    def votes_with_others(self) -> bool:
        """Whether this node is one of several controllers, or may become one because the metadata log names the voters.

        A controller that is not a broker counts, too, even as the only voter: its brokers are other nodes."""
        return not self.is_member and (len(self.voters) > 1 or QUORUM_IN_LOG in self.static or not self.is_broker)

    @property
    def is_one_of_several(self) -> bool:
        """Whether the cluster has nodes besides this one: the controllers of this node, or some of them, are other nodes."""
        return self.is_member or self.votes_with_others

    @property
    def is_broker(self) -> bool:
        """Whether this node serves clients."""
        return "broker" in self.process_roles

    @property
    def controllers(self) -> tuple[tuple[str, int], ...]:
        """Return (host, port) of the controllers that are asked first. Raises InvalidSetting."""
        found = []
        for name, given in (
            ("controller.quorum.bootstrap.servers", self.controller_quorum_bootstrap_servers),
            ("controller.quorum.voters", tuple(each.partition("@")[2] for each in self.controller_quorum_voters)),
        ):
            for each in given:
                host, colon, port = each.strip().rpartition(":")
                if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
                    raise InvalidSetting(f"{name}={each}: its form is host:port", name=name, value=each)
                found.append((host.strip("[]"), int(port)))
        return tuple(dict.fromkeys(found))

    def setting(self, name: str) -> Setting[Any]:
        """Return the declaration of a setting. Raises InvalidSetting for an unknown name."""
        found = self.declared().get(name)
        if found is None:
            raise InvalidSetting(f"{name}: {_unknown(name)}", name=name)
        return found


def _is_of_listener(name: str) -> bool:
    """Whether the name is one of a listener's own settings of TLS or logins."""
    if not name.startswith(LISTENER_PREFIX):
        return False
    return name.removeprefix(LISTENER_PREFIX).partition(".")[2].startswith(PER_LISTENER)


def _unknown(name: str) -> str:
    """Return the error text for an unknown setting, with the most similar known name."""
    import difflib  # Imported here because it takes 3 ms and is needed only for a mistake.

    near = difflib.get_close_matches(name, BrokerConfig.declared(), n=1, cutoff=0.8)
    return (
        f"no such setting; did you mean {near[0]}?"
        if near
        else "no such setting; streamactors docs broker-reference lists them all"
    )


_NOT_A_VOTER: Final = (
    "this node is a controller and is not among them; name it with its node.id, or join their cluster with "
    "process.roles=broker"
)
_ONLY_CONTROLLERS_JOIN: Final = "it is for nodes that have the role of a controller in process.roles; leave it out"
_NO_VOTERS: Final = (
    "name the controllers, at least this one, with controller.quorum.voters=1@host:port, or with "
    "controller.quorum.bootstrap.servers and a folder whose format names its voters"
)


def _check_identity(config: BrokerConfig) -> None:
    """Refuse combinations of settings that this broker does not support."""

    def refuse(name: str, text: str, way_out: str) -> InvalidSetting:
        return InvalidSetting(f"{name}={text}: {way_out}", name=name, value=text)

    values = config.values
    if config.broker_id >= 0 and "node.id" in values and config.broker_id != config.node_id:
        raise refuse("broker.id", str(config.broker_id), f"node.id is {config.node_id}; give one of the two")
    node_id = config.effective_node_id
    voters, bootstrap = config.controller_quorum_voters, config.controller_quorum_bootstrap_servers
    if config.is_member:
        if not voters and not bootstrap:
            raise refuse(
                "process.roles", "broker", "name the controllers with controller.quorum.bootstrap.servers=host:port"
            )
        for voter in voters:
            if voter.startswith(f"{node_id}@"):
                raise refuse(
                    "node.id", str(node_id), f"it is the id of the controller {voter}; give the broker another"
                )
        _ = config.controllers  # each has the form host:port
        if config.controller_quorum_auto_join_enable:
            raise refuse("controller.quorum.auto.join.enable", "true", _ONLY_CONTROLLERS_JOIN)
    else:
        if voters and node_id not in config.voters:
            raise refuse("controller.quorum.voters", ",".join(voters), _NOT_A_VOTER)
        if not config.is_broker and not voters and not bootstrap:
            raise refuse("process.roles", "controller", _NO_VOTERS)
