"""AlterUserScramCredentials: sets and removes SCRAM credentials. The client sends a salted password, never the password.

Versions: 0 (flexible).   Authorised: ALTER CLUSTER.
Errors: UNACCEPTABLE_CREDENTIAL (an empty name, iterations outside 4,096 to 16,384), UNSUPPORTED_SASL_MECHANISM, DUPLICATE_RESOURCE,
RESOURCE_NOT_FOUND.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streamactors.broker.controller.command import AlterScram, Outcome, ScramDeletion, ScramUpsert
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import alter_cluster
from streamactors.broker.security.sasl.scram import HASHES, credential_of, new_salt_secret

_KINDS: Final = {kind.code: kind for kind in HASHES.values()}


def handle(request: Request) -> Later:
    message = request.message

    @request.answer_with
    def reply(outcomes: Mapping[str, Outcome]) -> Body:
        return {
            "results": [
                {"user": user, "error_code": code, "error_message": text} for user, (code, text) in outcomes.items()
            ]
        }

    command = AlterScram(
        new_salt_secret(),
        tuple(ScramDeletion(each.name, each.mechanism) for each in message.deletions),
        tuple(_upsert(each) for each in message.upsertions),
    )
    request.node.controller.submit(command, reply)
    return LATER


def _upsert(asked: Any) -> ScramUpsert:
    kind = _KINDS.get(asked.mechanism)
    salt, salted = bytes(asked.salt), bytes(asked.salted_password)
    if kind is None:  # the controller refuses it by its number
        return ScramUpsert(asked.name, asked.mechanism, asked.iterations, salt, b"", b"")
    made = credential_of(kind, salted, salt, asked.iterations)
    return ScramUpsert(asked.name, asked.mechanism, asked.iterations, salt, made.stored_key, made.server_key)


def refuse(request: Request, code: ErrorCode) -> Body:
    names = dict.fromkeys(each.name for each in (*request.message.deletions, *request.message.upsertions))
    return {"results": [{"user": name, "error_code": code, "error_message": None} for name in names]}


API: Final = Api(key=51, versions=(0, 0), authorise=alter_cluster, handle=handle, refuse=refuse, forwarded=True)
