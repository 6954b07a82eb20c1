"""The common part of AlterConfigs and IncrementalAlterConfigs: rights, the command, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from streamactors.broker.config.node_settings import NodeSettings
from streamactors.broker.controller.command import AlterConfigs, ConfigOperation, Outcome, ResourceChange
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.metadata_record import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from streamactors.broker.requests.api import LATER, Body, Later, PartlyRefused
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import CLUSTER_NAME, Operation, ResourceType

CORDONED: Final = NodeSettings.cordoned_log_dirs.name
_SET: Final = ConfigOperation.SET
_APPEND: Final = ConfigOperation.APPEND


def alter(request: Request, change: Callable[[Any], ResourceChange]) -> Later:
    """Submit the changes of the resources that the client may change, and answer for all resources."""
    resources = request.message.resources
    allowed = [_allowed(request, resource) for resource in resources]
    wanted = [resource for resource, outcome in zip(resources, allowed, strict=True) if not outcome.code]

    @request.answer_with
    def reply(outcomes: Sequence[Outcome]) -> Body:
        done = iter(outcomes)
        results = [outcome if outcome.code else next(done) for outcome in allowed]
        return {"responses": [_response(r, *o) for r, o in zip(resources, results, strict=True)]}

    node = request.node
    asked_broker = None if request.listener.for_controllers else node.node_id
    changes = tuple(change(resource) for resource in wanted)
    node.controller.submit(AlterConfigs(changes, request.message.validate_only, asked_broker), reply)
    return LATER


def refuse_other_brokers(request: Request) -> Body | PartlyRefused | None:
    """Return the refusals of a request that changes other brokers, None if all of it may be forwarded. A broker takes changes of its own settings only."""
    resources = request.message.resources
    refused = [_refused_here(request, each) for each in resources]
    if not any(refused):
        return None

    def answers(of_controller: Iterable[Any]) -> Body:
        done = iter(of_controller)
        return {
            "responses": [
                _response(each, ErrorCode.INVALID_REQUEST, why) if why else _response(each, *_outcome_of(next(done)))
                for each, why in zip(resources, refused, strict=True)
            ]
        }

    if all(refused):
        return answers(())
    rest = [_as_asked(each) for each, why in zip(resources, refused, strict=True) if not why]
    body = {"resources": rest, "validate_only": request.message.validate_only}
    return PartlyRefused(body, lambda answer: answers(answer.responses))


def _refused_here(request: Request, resource: Any) -> str | None:
    """Return why this broker does not take the change of a resource, None if it does."""
    own = str(request.node.node_id)
    if resource.resource_type != BROKER_RESOURCE or not resource.resource_name:
        return None
    if resource.resource_name != own:
        return f"Unexpected broker id, expected {own}, but received {resource.resource_name}"
    return _why_not_cordoned(request, resource)


def _why_not_cordoned(request: Request, resource: Any) -> str | None:
    """Return why this broker cannot have the new cordoned.log.dirs. Only it knows its data folders."""
    for config in resource.configs:
        if config.name == CORDONED and config.value and getattr(config, "config_operation", _SET) in (_SET, _APPEND):
            words = [each.strip() for each in config.value.split(",")]
            why = request.node.logs.folders.why_not_cordoned(words)
            if why is not None:
                return f"requirement failed: {why}"
    return None


def _outcome_of(answer: Any) -> tuple[ErrorCode, str | None]:
    return ErrorCode(answer.error_code), answer.error_message


def _as_asked(resource: Any) -> dict[str, Any]:
    return {
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": [
            {name: getattr(each, name) for name in ("name", "value", "config_operation") if hasattr(each, name)}
            for each in resource.configs
        ],
    }


def refuse(request: Request, code: ErrorCode) -> Body:
    """Return the answer that refuses every resource."""
    return {"responses": [_response(resource, code, None) for resource in request.message.resources]}


def _allowed(request: Request, resource: Any) -> Outcome:
    """Return whether the client may change a resource, and this broker take the change."""
    code = _right(request, resource)
    own = resource.resource_type == BROKER_RESOURCE and resource.resource_name == str(request.node.node_id)
    if code or not own or request.listener.for_controllers:
        return Outcome(code)
    why = _why_not_cordoned(request, resource)
    return Outcome() if why is None else Outcome(ErrorCode.INVALID_REQUEST, why)


def _right(request: Request, resource: Any) -> ErrorCode:
    if resource.resource_type == TOPIC_RESOURCE:
        if request.allowed(Operation.ALTER_CONFIGS, ResourceType.TOPIC, resource.resource_name):
            return ErrorCode.NONE
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if resource.resource_type == GROUP_RESOURCE:
        if request.allowed(Operation.ALTER_CONFIGS, ResourceType.GROUP, resource.resource_name):
            return ErrorCode.NONE
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if request.allowed(Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        return ErrorCode.NONE
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _response(resource: Any, code: ErrorCode, message: str | None) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_message": message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }
