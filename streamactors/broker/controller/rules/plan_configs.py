"""The rule of AlterConfigs: the records that change settings of topics, brokers, groups and client metrics. Pure.

Owner: the controller. Checks, error codes and wording are those of Apache Kafka's ConfigAdminManager and
ConfigurationControlManager, except that settings of features that this broker does not have are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.client_metrics_settings import (
    ClientMetricsSettings,
    check_client_metrics,
    client_metrics_of,
)
from streamactors.broker.config.describe import resolve_topic_setting
from streamactors.broker.config.group_settings import GroupConfigSettings, check_group_settings
from streamactors.broker.config.node_settings import NodeSettings
from streamactors.broker.config.setting import InvalidSetting, Setting, SettingType
from streamactors.broker.config.topic_settings import TopicSettings
from streamactors.broker.config.unsupported import why_refused
from streamactors.broker.controller.command import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    Facts,
    Outcome,
    PlannedChange,
    ResourceChange,
)
from streamactors.broker.controller.rules.elr_rules import ELR_VERSION, MIN_ISR
from streamactors.broker.controller.rules.folder_rules import FIRST_WITH_CORDONED
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.metadata.image import METADATA_VERSION
from streamactors.broker.metadata.metadata_record import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClearElr,
    ConfigRecord,
    MetadataRecord,
)

CORDONED: Final = NodeSettings.cordoned_log_dirs.name
_OPERATIONS: Final = frozenset(ConfigOperation)


def check_topic_settings(config: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """Raise Refusal INVALID_CONFIG unless a topic can have these settings, alone and together."""
    declared = TopicSettings.declared()
    for name, text in overrides.items():
        setting = declared.get(name)
        if setting is None:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        try:
            setting.parse(text)
        except InvalidSetting as error:
            raise Refusal(ErrorCode.INVALID_CONFIG, str(error)) from None
    least = resolve_topic_setting(config, overrides, TopicSettings.min_compaction_lag_ms)
    most = resolve_topic_setting(config, overrides, TopicSettings.max_compaction_lag_ms)
    if least > most:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})",
        )


def alter_configs(facts: Facts, command: AlterConfigs) -> PlannedChange:
    """Return the records of the legal changes; the answer has an outcome per resource, in order."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in command.resources)
    records: list[MetadataRecord] = []
    answer: list[Outcome] = []
    for resource in command.resources:
        try:
            if counts[resource.resource_type, resource.resource_name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            records += _alter(facts, resource, command.asked_broker)
            answer.append(Outcome())
        except Refusal as refusal:
            answer.append(Outcome(refusal.code, refusal.message))
    return PlannedChange([] if command.validate_only else records, answer)


def _alter(facts: Facts, resource: ResourceChange, asked_broker: int | None) -> list[MetadataRecord]:
    if any(count > 1 for count in Counter(change.name for change in resource.changes).values()):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [c.name for c in resource.changes if c.value is None and c.operation != ConfigOperation.DELETE]
    if nulls:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
    unknown = [c.operation for c in resource.changes if c.operation not in _OPERATIONS]
    if unknown:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown operation type {unknown[0]}")
    key = (resource.resource_type, resource.resource_name)
    before = facts.image.configs.get(key, {})
    if resource.resource_type == TOPIC_RESOURCE:
        after = _topic(facts, resource, before)
    elif resource.resource_type == BROKER_RESOURCE:
        after = _broker(facts, resource, before, asked_broker)
    elif resource.resource_type == CLIENT_METRICS_RESOURCE:
        after = _client_metrics(resource, before)
    elif resource.resource_type == GROUP_RESOURCE:
        after = _group(facts, resource, before)
    else:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    made: list[MetadataRecord] = [ConfigRecord(*key, name, None) for name in before if name not in after]
    made += [ConfigRecord(*key, name, value) for name, value in after.items() if before.get(name) != value]
    if facts.image.features.get(ELR_VERSION) and before.get(MIN_ISR) != after.get(MIN_ISR):
        made += _other_min_isr(resource)
    return made


def _other_min_isr(resource: ResourceChange) -> list[MetadataRecord]:
    """Return the record that makes all replicas ineligible: with another min.insync.replicas an eligible one may lack records.

    Raises Refusal."""
    if resource.resource_type == BROKER_RESOURCE and resource.resource_name:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.")
    return [ClearElr(resource.resource_name)]


def _topic(facts: Facts, resource: ResourceChange, before: Mapping[str, str]) -> dict[str, str]:
    name = resource.resource_name
    if not name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if name not in facts.image.topics:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")

    def present(setting: Setting[Any]) -> Any:
        return resolve_topic_setting(facts.config, before, setting)

    after = _changed(resource, before, TopicSettings.declared(), present)
    check_topic_settings(facts.config, after)
    return after


def _broker(
    facts: Facts, resource: ResourceChange, before: Mapping[str, str], asked_broker: int | None
) -> dict[str, str]:
    name = resource.resource_name
    if name:
        if not name.lstrip("-").isdecimal():
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
        if asked_broker is not None and int(name) != asked_broker:
            raise Refusal(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {asked_broker}, but received {name}"
            )
        if int(name) != facts.broker_id and int(name) not in facts.image.brokers:
            raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {name} found.")
    if any(change.name == CORDONED for change in resource.changes):
        _check_cordoned(facts, resource, before, asked_broker)
    declared = facts.config.declared()
    for change in resource.changes:
        refused = None if change.name in declared else why_refused(change.name)
        if refused is not None and change.operation != ConfigOperation.DELETE:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"{change.name}: {refused}")
    fixed = [c.name for c in resource.changes if c.name in declared and not declared[c.name].dynamic]
    if fixed:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(fixed)}]")

    def present(setting: Setting[Any]) -> Any:
        return facts.config.values.get(setting.name, setting.default)

    after = _changed(resource, before, declared, present)
    for key, text in after.items():
        try:
            if key in declared:
                declared[key].parse(text)
        except InvalidSetting as error:
            raise Refusal(ErrorCode.INVALID_REQUEST, str(error)) from None
    return after


def _client_metrics(resource: ResourceChange, before: Mapping[str, str]) -> dict[str, str]:
    def present(setting: Setting[Any]) -> Any:
        return client_metrics_of(before).values.get(setting.name, setting.default)

    after = _changed(resource, before, ClientMetricsSettings.declared(), present)
    check_client_metrics(resource.resource_name, after)
    return after


def _group(facts: Facts, resource: ResourceChange, before: Mapping[str, str]) -> dict[str, str]:
    def present(setting: Setting[Any]) -> Any:
        return setting.parse(before[setting.name]) if setting.name in before else setting.default

    after = _changed(resource, before, GroupConfigSettings.declared(), present)
    check_group_settings(facts.config, resource.resource_name, after)
    return after


def _check_cordoned(
    facts: Facts, resource: ResourceChange, before: Mapping[str, str], asked_broker: int | None
) -> None:
    """Raise Refusal unless cordoned.log.dirs may change. The asked broker has looked at the folders; a controller cannot."""
    if not resource.resource_name:
        text = f"Cannot update these configs at default cluster level, broker id must be specified: [{CORDONED}]"
        raise Refusal(ErrorCode.INVALID_REQUEST, text)
    if facts.image.features.get(METADATA_VERSION, 0) < FIRST_WITH_CORDONED:
        text = f"The {CORDONED} configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
        raise Refusal(ErrorCode.INVALID_CONFIG, text)
    known = set(before.get(CORDONED, "").split(","))
    for change in resource.changes:
        added = change.name == CORDONED and change.operation in (ConfigOperation.SET, ConfigOperation.APPEND)
        if asked_broker is None and added and change.value and not set(change.value.split(",")) <= known:
            text = f"When updating {CORDONED} via controllers,  the new value must be a subset of the current configuration value."
            raise Refusal(ErrorCode.INVALID_CONFIG, text)


def _changed(
    resource: ResourceChange, before: Mapping[str, str], declared: Mapping[str, Setting[Any]], present: Any
) -> dict[str, str]:
    after = {} if resource.replace else dict(before)
    for change in resource.changes:
        if change.operation == ConfigOperation.DELETE:
            after.pop(change.name, None)
        elif change.operation == ConfigOperation.SET:
            after[change.name] = str(change.value)
        else:
            after[change.name] = _edited_list(change, declared.get(change.name), present)
    return after


def _edited_list(change: ConfigChange, setting: Setting[Any] | None, present: Any) -> str:
    operation = ConfigOperation(change.operation)
    if setting is None or setting.kind != SettingType.LIST:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {change.name} because its type is not LIST.",
        )
    words = list(present(setting))
    for word in (part.strip() for part in str(change.value).split(",")):
        if operation == ConfigOperation.APPEND and word not in words:
            words.append(word)
        elif operation == ConfigOperation.SUBTRACT and word in words:
            words.remove(word)
    return ",".join(words)
