"""The broker's configuration: every setting it honours, typed, immutable, with where each value came from.

Owner: the server, which replaces it whole when a dynamic setting changes. Layers, highest first, as in Apache Kafka:
this broker's dynamic settings, the cluster's dynamic defaults, what it was started with, the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streamactors.broker.config.foreign import WITHOUT_EFFECT, why_refused
from streamactors.broker.config.group_settings import GroupSettings, TransactionSettings
from streamactors.broker.config.log_settings import LogSettings
from streamactors.broker.config.network_settings import NetworkSettings
from streamactors.broker.config.node_settings import NodeSettings
from streamactors.broker.config.setting import InvalidSetting, Setting

Plain = str | int | float | bool | None


class BrokerConfig(NodeSettings, NetworkSettings, LogSettings, GroupSettings, TransactionSettings):
    """All settings of a broker. Read them as attributes named as in Kafka with `_` for `.`: `config.num_partitions`."""

    __slots__ = ("cluster_dynamic", "node_dynamic", "static", "without_effect")

    static: Mapping[str, str]  # as started, by Kafka's name
    cluster_dynamic: Mapping[str, str]  # defaults for all brokers, from the metadata log
    node_dynamic: Mapping[str, str]  # this broker's own, from the metadata log
    without_effect: Mapping[str, str]  # accepted but not honoured, with the reason

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

        Raises InvalidSetting: an unknown name, a value out of its limits, a setting whose feature is not there.
        """
        static: dict[str, str] = {}
        without_effect: dict[str, str] = {}
        for name, value in (settings or {}).items():
            if value is None:
                continue
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if name in cls.declared():
                static[name] = text
            elif name in WITHOUT_EFFECT:
                without_effect[name] = WITHOUT_EFFECT[name]
            else:
                raise unknown_setting(name, text)
        config = cls(static, {}, {}, without_effect)
        _check_identity(config)
        return config

    def with_dynamic(self, cluster: Mapping[str, str], node: Mapping[str, str]) -> BrokerConfig:
        """Return the configuration under other dynamic settings; those without effect here are kept out of the way."""
        declared = self.declared()
        known_cluster = {name: text for name, text in cluster.items() if name in declared}
        known_node = {name: text for name, text in node.items() if name in declared}
        return type(self)(self.static, known_cluster, known_node, self.without_effect)

    @property
    def effective_node_id(self) -> int:
        """Return node.id, or broker.id where only the old name is given."""
        return self.broker_id if "node.id" not in self.values and self.broker_id >= 0 else self.node_id

    @property
    def data_folder(self) -> str | None:
        """Return log.dirs, or log.dir, or None where neither is given."""
        return self.log_dirs or self.log_dir

    def setting(self, name: str) -> Setting[Any]:
        """Return the declaration of a setting. Raises InvalidSetting for an unknown name."""
        found = self.declared().get(name)
        if found is None:
            raise unknown_setting(name)
        return found


def unknown_setting(name: str, value: str | None = None) -> InvalidSetting:
    """Return the error for a name that is no setting of this broker, with the nearest one that is."""
    refused = why_refused(name)
    if refused is not None:
        return InvalidSetting(f"{name}: {refused}", name=name, value=value)
    import difflib  # only for a mistake: it costs a start 3 ms

    near = difflib.get_close_matches(name, BrokerConfig.declared(), n=1, cutoff=0.8)
    hint = f"did you mean {near[0]}?" if near else "docs/broker.md lists them all"
    return InvalidSetting(f"unknown setting {name}: {hint}", name=name, value=value)


_ONE_ONLY: Final = "this node is its own controller, there is no quorum to join yet"


def _check_identity(config: BrokerConfig) -> None:
    """Refuse settings that each are legal and together describe what this broker cannot be."""

    def refuse(name: str, text: str, way_out: str) -> InvalidSetting:
        return InvalidSetting(f"{name}={text}: {way_out}", name=name, value=text)

    values = config.values
    if config.broker_id >= 0 and "node.id" in values and config.broker_id != config.node_id:
        raise refuse("broker.id", str(config.broker_id), f"node.id is {config.node_id}; give one of the two")
    if "broker" not in config.process_roles:
        raise refuse("process.roles", ",".join(config.process_roles), "a controller without a broker is not there yet")
    node_id = config.effective_node_id
    for voter in config.controller_quorum_voters:
        if len(config.controller_quorum_voters) > 1 or not voter.startswith(f"{node_id}@"):
            raise refuse("controller.quorum.voters", ",".join(config.controller_quorum_voters), _ONE_ONLY)
    if len(config.controller_quorum_bootstrap_servers) > 1:
        raise refuse(
            "controller.quorum.bootstrap.servers", ",".join(config.controller_quorum_bootstrap_servers), _ONE_ONLY
        )
    if "," in (config.data_folder or ""):
        raise refuse("log.dirs", str(config.data_folder), "give one folder; several are not there yet")
