"""CreateDelegationToken: makes a token by which clients log in as its owner.

Versions: 1-3 (2 flexible, 3 a token for another owner KIP-373).   Authorised: for another owner CREATE_TOKENS on that USER.
Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (without a login or certificate, or after a login by a token),
DELEGATION_TOKEN_AUTH_DISABLED (delegation.token.secret.key is not set), DELEGATION_TOKEN_AUTHORIZATION_FAILED,
INVALID_PRINCIPAL_TYPE (a renewer that is not a User).   Differs from Apache Kafka: nothing."""

from __future__ import annotations

import secrets
from typing import Final

from streamactors.broker.apis.token_requests import named, principals, why_not
from streamactors.broker.controller.command import CreateToken, TokenChanged
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each

_FIRST_WITH_OWNER: Final = 3


def handle(request: Request) -> Body | Later:
    message, requester = request.message, request.principal
    owner = requester
    if request.version >= _FIRST_WITH_OWNER and message.owner_principal_name:
        owner = f"{message.owner_principal_type}:{message.owner_principal_name}"
    renewers = principals(message.renewers)
    code = why_not(request)
    if code is not ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED:
        if owner != requester and not request.allowed(Operation.CREATE_TOKENS, ResourceType.USER, owner):
            code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        elif any(not renewer.startswith("User:") for renewer in renewers):
            code = ErrorCode.INVALID_PRINCIPAL_TYPE
    if code is not ErrorCode.NONE:
        return _body(request, code, owner)

    @request.answer_with
    def reply(created: TokenChanged) -> Body:
        return _body(request, created.code, owner, created)

    now_ms = int(request.node.clock.wall_ms())
    token_id = secrets.token_urlsafe(16)
    request.node.controller.submit(
        CreateToken(token_id, owner, requester, renewers, message.max_lifetime_ms, now_ms), reply
    )
    return LATER


def _body(request: Request, code: ErrorCode, owner: str, created: TokenChanged | None = None) -> Body:
    kind, name = named(owner)
    token = None if created is None else created.token
    body: dict[str, object] = {
        "error_code": code,
        "principal_type": kind,
        "principal_name": name,
        "issue_timestamp_ms": -1 if token is None else token.issued_at_ms,
        "expiry_timestamp_ms": -1 if token is None else token.expires_at_ms,
        "max_timestamp_ms": -1 if token is None else token.valid_until_ms,
        "token_id": "" if token is None else token.token_id,
        "hmac": b"" if token is None else request.node.tokens.hmac(token),
    }
    if request.version >= _FIRST_WITH_OWNER:
        kind, name = named(request.principal)
        body |= {"token_requester_principal_type": kind, "token_requester_principal_name": name}
    return body


def refuse(request: Request, code: ErrorCode) -> Body:
    return _body(request, code, request.principal)


API: Final = Api(key=38, versions=(1, 3), authorise=each, handle=handle, refuse=refuse, here=why_not, forwarded=True)
