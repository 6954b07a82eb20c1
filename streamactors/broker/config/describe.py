"""The entries of DescribeConfigs: the value of a setting, its source, and the layers below it.

Owner: the DescribeConfigs and CreateTopics handlers. Rules: Apache Kafka's ConfigHelper; the first synonym is in
effect, and a setting without synonyms has its default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from itertools import dropwhile
from typing import Any, Final, NamedTuple

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.client_metrics_settings import ClientMetricsSettings
from streamactors.broker.config.group_settings import GroupConfigSettings, broker_default
from streamactors.broker.config.setting import Setting, SettingType
from streamactors.broker.config.topic_settings import BROKER_SYNONYMS, TopicSettings


class ConfigSource(IntEnum):
    """Where a value came from, as numbered on the wire."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class SynonymEntry(NamedTuple):
    """One layer that gives a value to a setting."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A setting with its current value."""

    name: str
    kind: SettingType
    doc: str
    value: str | None
    source: ConfigSource
    read_only: bool
    synonyms: tuple[SynonymEntry, ...]


# broker settings for the same value in coarser units: Kafka lists them after the finest one
_COARSER: Final[dict[str, tuple[str, ...]]] = {
    fallbacks[0].name: tuple(synonym.name for synonym in fallbacks[1:]) for fallbacks in BROKER_SYNONYMS.values()
}


def describe_topic(config: BrokerConfig, overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Yield every setting of a topic that has these overrides."""
    for name, setting in TopicSettings.declared().items():
        layers: list[SynonymEntry] = []
        if name in overrides:
            own = setting.format(setting.parse(overrides[name]))
            layers.append(SynonymEntry(name, own, ConfigSource.DYNAMIC_TOPIC))
        fallbacks = BROKER_SYNONYMS.get(name, ())
        if fallbacks:
            layers += _layers(config, fallbacks[0].name)
        value = setting.format(resolve_topic_setting(config, overrides, setting))
        yield ConfigEntry(
            name,
            setting.kind,
            setting.doc,
            value,
            layers[0].source if layers else ConfigSource.DEFAULT,
            False,
            tuple(layers),
        )


def describe_broker(config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Yield every setting of a running broker."""
    for name, setting in config.declared().items():
        layers = tuple(_layers(config, name))
        value = setting.format(config.values.get(name, setting.default))
        source = layers[0].source if layers else ConfigSource.DEFAULT
        yield ConfigEntry(name, setting.kind, setting.doc, value, source, not setting.dynamic, layers)


def describe_cluster_defaults(config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Yield the dynamic defaults of the cluster."""
    for name, text in config.cluster_dynamic.items():
        setting = config.setting(name)
        value = setting.format(setting.parse(text))
        layer = SynonymEntry(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)
        yield ConfigEntry(name, setting.kind, setting.doc, value, layer.source, False, (layer,))


def describe_client_metrics(overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Yield every setting of a client-metrics resource that has these overrides. One that is not there has the defaults, as in Apache Kafka."""
    for name, setting in ClientMetricsSettings.declared().items():
        value = setting.format(setting.parse(overrides[name]) if name in overrides else setting.default)
        own = (SynonymEntry(name, value, ConfigSource.CLIENT_METRICS),) if name in overrides else ()
        source = own[0].source if own else ConfigSource.DEFAULT
        yield ConfigEntry(name, setting.kind, setting.doc, value, source, False, own)


def describe_group(config: BrokerConfig, overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Yield every setting of a group that has these overrides; the others are the broker's. Any group id has settings, as in Apache Kafka."""
    for name, setting in GroupConfigSettings.declared().items():
        own = []
        if name in overrides:
            own.append(SynonymEntry(name, setting.format(setting.parse(overrides[name])), ConfigSource.GROUP))
        fallback = broker_default(config, name)
        if fallback is None:
            layers = [
                SynonymEntry(name, setting.format(setting.default), ConfigSource.DEFAULT),
                *own,
            ]  # Apache Kafka's order
            current = layers[-1]
        else:
            layers = own + _layers(config, f"group.{name}")
            current = layers[0] if layers else SynonymEntry(name, fallback, ConfigSource.DEFAULT)
        yield ConfigEntry(name, setting.kind, setting.doc, current.value, current.source, False, tuple(layers))


def resolve_topic_setting(config: BrokerConfig, overrides: Mapping[str, str], setting: Setting[Any]) -> Any:
    """Return a topic setting's value: its override, the first broker setting that it falls back to, the default."""
    if setting.name in overrides:
        return setting.parse(overrides[setting.name])
    fallbacks = BROKER_SYNONYMS.get(setting.name, ())
    for given in (True, False):  # A given value precedes every default.
        for synonym in fallbacks:
            value = config.values.get(synonym.name) if given else config.setting(synonym.name).default
            if value is not None:
                return value if synonym.factor == 1 else max(value * synonym.factor, -1)  # -1: no limit, in any unit
    return setting.default


def resolve_topic(config: BrokerConfig, overrides: Mapping[str, str]) -> TopicSettings:
    """Return all settings of a topic that has these overrides, with `config` for those that are missing."""
    declared = TopicSettings.declared()
    return TopicSettings({name: resolve_topic_setting(config, overrides, s) for name, s in declared.items()})


def _layers(config: BrokerConfig, name: str) -> list[SynonymEntry]:
    declared = config.declared()
    names = (name, *_COARSER.get(name, ()))
    layers: list[SynonymEntry] = []
    for source, given in (
        (ConfigSource.DYNAMIC_BROKER, config.node_dynamic),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, config.cluster_dynamic),
        (ConfigSource.STATIC_BROKER, config.static),
    ):
        layers += [
            SynonymEntry(n, declared[n].format(declared[n].parse(given[n])), source) for n in names if n in given
        ]
    for n in names:
        default = declared[n].format(declared[n].default)
        if default is not None:
            layers.append(SynonymEntry(n, default, ConfigSource.DEFAULT))
    # As in Kafka: coarser units are listed only after a layer of the finest one.
    return list(dropwhile(lambda layer: layer.name != name, layers))
