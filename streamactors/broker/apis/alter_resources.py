"""The common part of AlterConfigs and IncrementalAlterConfigs: rights, the command, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from streamactors.broker.controller.command import AlterConfigs, Outcome, ResourceChange
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.metadata_record import BROKER_RESOURCE, TOPIC_RESOURCE
from streamactors.broker.requests.api import LATER, Body, Later, PartlyRefused
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import CLUSTER_NAME, Operation, ResourceType


def alter(request: Request, change: Callable[[Any], ResourceChange]) -> Later:
    """Submit the changes of the resources that the client may change, and answer for all resources."""
    resources = request.message.resources
    allowed = [_allowed(request, resource) for resource in resources]
    wanted = [resource for resource, code in zip(resources, allowed, strict=True) if code == ErrorCode.NONE]

    @request.answer_with
    def reply(outcomes: Sequence[Outcome]) -> Body:
        done = iter(outcomes)
        results = [next(done) if code == ErrorCode.NONE else Outcome(code) for code in allowed]
        return {"responses": [_response(r, *o) for r, o in zip(resources, results, strict=True)]}

    node = request.node
    asked_broker = None if request.listener.for_controllers else node.node_id
    changes = tuple(change(resource) for resource in wanted)
    node.controller.submit(AlterConfigs(changes, request.message.validate_only, asked_broker), reply)
    return LATER


def refuse_other_brokers(request: Request) -> Body | PartlyRefused | None:
    """Return the refusals of a request that changes other brokers, None if all of it may be forwarded. A broker takes changes of its own settings only."""
    own, resources = str(request.node.node_id), request.message.resources
    own_too = [each.resource_type != BROKER_RESOURCE or each.resource_name in ("", own) for each in resources]
    if all(own_too):
        return None

    def answers(of_controller: Iterable[Any]) -> Body:
        done = iter(of_controller)
        return {
            "responses": [
                _response(each, *_outcome_of(next(done)))
                if taken
                else _response(
                    each,
                    ErrorCode.INVALID_REQUEST,
                    f"Unexpected broker id, expected {own}, but received {each.resource_name}",
                )
                for each, taken in zip(resources, own_too, strict=True)
            ]
        }

    if not any(own_too):
        return answers(())
    rest = [_as_asked(each) for each, taken in zip(resources, own_too, strict=True) if taken]
    body = {"resources": rest, "validate_only": request.message.validate_only}
    return PartlyRefused(body, lambda answer: answers(answer.responses))


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


def _allowed(request: Request, resource: Any) -> ErrorCode:
    if resource.resource_type == TOPIC_RESOURCE:
        if request.allowed(Operation.ALTER_CONFIGS, ResourceType.TOPIC, resource.resource_name):
            return ErrorCode.NONE
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
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
