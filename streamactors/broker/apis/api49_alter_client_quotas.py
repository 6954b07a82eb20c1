"""AlterClientQuotas: sets and removes the quotas of users, client ids and addresses.

Versions: 0-1 (1 flexible).   Authorised: ALTER_CONFIGS CLUSTER.
Errors: INVALID_REQUEST with the reason, by entity.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from streamactors.broker.controller.command import AlterQuotas, Outcome, QuotaAlteration
from streamactors.broker.controller.rules.plan_quotas import IP
from streamactors.broker.errors import ErrorCode
from streamactors.broker.helpers import HelperOutcome
from streamactors.broker.quotas.connection_rates import addresses_of
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import alter_cluster_configs


def handle(request: Request) -> Later:
    entries = request.message.entries
    entities = [_entity(entry) for entry in entries]
    hosts = {host for entity in entities if (host := entity.get(IP))}

    @request.answer_with
    def reply(outcomes: Sequence[Outcome]) -> Body:
        return _body(entities, outcomes)

    def submit(resolved: set[str]) -> None:
        alterations = tuple(
            QuotaAlteration(entity, _values(entry), entity.get(IP) in resolved)
            for entity, entry in zip(entities, entries, strict=True)
        )
        request.node.controller.submit(AlterQuotas(alterations, request.message.validate_only), reply)

    def looked_up(outcome: HelperOutcome[set[str]]) -> None:
        submit(outcome.value if outcome.error is None and outcome.value is not None else set())

    if hosts:  # a look-up of a name may take seconds
        request.node.helpers.run(partial(_resolvable, hosts), looked_up)
    else:
        submit(set())
    return LATER


def _resolvable(hosts: set[str]) -> set[str]:
    return {host for host in hosts if addresses_of(host)}


def _values(entry: Any) -> tuple[tuple[str, float | None], ...]:
    return tuple((op.key, None if op.remove else op.value) for op in entry.ops)


def _entity(entry: Any) -> dict[str, str | None]:
    return {part.entity_type: part.entity_name for part in entry.entity}


def _body(entities: Sequence[Mapping[str, str | None]], outcomes: Sequence[Outcome]) -> Body:
    """Return the answer. An entity that was named twice is answered once, as by Apache Kafka."""
    answers = {tuple(entity.items()): outcome for entity, outcome in zip(entities, outcomes, strict=True)}
    return {
        "entries": [
            {
                "error_code": outcome.code,
                "error_message": outcome.message,
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
            }
            for entity, outcome in answers.items()
        ]
    }


def refuse(request: Request, code: ErrorCode) -> Body:
    entities = [_entity(entry) for entry in request.message.entries]
    return _body(entities, [Outcome(code) for _ in entities])


API: Final = Api(key=49, versions=(0, 1), authorise=alter_cluster_configs, handle=handle, refuse=refuse, forwarded=True)
