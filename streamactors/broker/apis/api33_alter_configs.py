"""AlterConfigs: replaces all settings of topics, groups, brokers and client metrics; settings that are not named return to their defaults.

Versions: 0-2 (2 flexible).   Authorised: ALTER_CONFIGS of each TOPIC and GROUP, ALTER_CONFIGS CLUSTER for brokers and client metrics.
Errors: INVALID_CONFIG, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION.
Differs from Apache Kafka: settings of features that this broker does not have are refused; no loggers."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.apis.alter_resources import alter, refuse, refuse_other_brokers
from streamactors.broker.controller.command import ConfigChange, ResourceChange
from streamactors.broker.requests.api import Api, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import each


def handle(request: Request) -> Later:
    return alter(request, _replacement)


def _replacement(resource: Any) -> ResourceChange:
    changes = tuple(ConfigChange(config.name, config.value) for config in resource.configs)
    return ResourceChange(resource.resource_type, resource.resource_name, changes, replace=True)


API: Final = Api(
    key=33,
    versions=(0, 2),
    authorise=each,
    handle=handle,
    refuse=refuse,
    refused_here=refuse_other_brokers,
    forwarded=True,
)
