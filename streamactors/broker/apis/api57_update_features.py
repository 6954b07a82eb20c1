"""UpdateFeatures: the cluster gets other levels of its features (KIP-584, KIP-778).

Versions: 0-2 (1 the kind of the change and validation alone, 2 one error for all).   Authorised: ALTER CLUSTER.
Errors: INVALID_UPDATE_VERSION, NOT_CONTROLLER.
Differs from Apache Kafka: a controller that was alone when kraft.version became 1 takes further voters only after its next start."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.controller.command import Outcome
from streamactors.broker.controller.rules.feature_rules import SAFE_DOWNGRADE, UPGRADE, FeatureUpdate, UpdateFeatures
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import alter_cluster

_FIRST_WITH_KIND: Final = 1
_LAST_WITH_RESULTS: Final = 1


def handle(request: Request) -> Later:
    message, kinds = request.message, request.version >= _FIRST_WITH_KIND

    def update(each: Any) -> FeatureUpdate:
        if kinds:
            return FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type)
        kind = SAFE_DOWNGRADE if each.allow_downgrade else UPGRADE
        return FeatureUpdate(each.feature, each.max_version_level, kind)

    @request.answer_with
    def reply(outcome: Outcome) -> Body:
        return _body(request, outcome)

    command = UpdateFeatures(tuple(update(each) for each in message.feature_updates), kinds and message.validate_only)
    request.node.controller.submit(command, reply)
    return LATER


def _body(request: Request, outcome: Outcome) -> Body:
    body: dict[str, Any] = {"throttle_time_ms": 0, "error_code": outcome.code, "error_message": outcome.message}
    if request.version <= _LAST_WITH_RESULTS:
        body["results"] = [
            {"feature": each.feature, "error_code": outcome.code, "error_message": outcome.message}
            for each in request.message.feature_updates
        ]
    return body


def refuse(request: Request, code: ErrorCode) -> Body:
    return _body(request, Outcome(code))


API: Final = Api(key=57, versions=(0, 2), authorise=alter_cluster, handle=handle, refuse=refuse, forwarded=True)
