"""What the handlers of delegation tokens share."""

from __future__ import annotations

from typing import Any

from streamactors.broker.controller.command import ChangeToken, TokenChanged
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.protection import SecurityProtocol
from streamactors.broker.security.rights import ANONYMOUS


def why_not(request: Request) -> ErrorCode:
    """Return why a client may not ask about tokens at all; NONE if it may.

    A token must not make tokens, and a connection needs its own principal, from a login or a certificate. The broker that has the connection
    checks this, also for a request that it forwards."""
    connection = request.connection
    by_token = connection.login is not None and connection.login.by_token
    is_open = not request.forwarded and connection.listener.protection.protocol is SecurityProtocol.PLAINTEXT
    if by_token or is_open or request.principal == ANONYMOUS:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.NONE if request.node.tokens.enabled else ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def change(request: Request, period_ms: int, *, renew: bool) -> Body | Later:
    """Answer RenewDelegationToken and ExpireDelegationToken."""
    code = why_not(request)
    token = request.node.tokens.find(bytes(request.message.hmac)) if code is ErrorCode.NONE else None
    if code is ErrorCode.NONE and token is None:
        code = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    if token is None:
        return changed_body(code)

    @request.answer_with
    def reply(changed: TokenChanged) -> Body:
        return changed_body(changed.code, -1 if changed.token is None else changed.token.expires_at_ms)

    now_ms = int(request.node.clock.wall_ms())
    command = ChangeToken(token.token_id, request.principal, period_ms, now_ms, renew)
    request.node.controller.submit(command, reply)
    return LATER


def changed_body(code: ErrorCode, expires_at_ms: int = -1) -> Body:
    """Return the answer to a renewal or an expiry."""
    return {"error_code": code, "expiry_timestamp_ms": expires_at_ms}


def refuse_change(request: Request, code: ErrorCode) -> Body:
    """Return the answer to a change that failed."""
    return changed_body(code)


def named(principal: str) -> tuple[str, str]:
    """Return the type and name of a principal."""
    kind, _, name = principal.partition(":")
    return kind, name


def principals(parts: Any) -> tuple[str, ...]:
    """Return principals of a request in Kafka's form."""
    return tuple(f"{each.principal_type}:{each.principal_name}" for each in parts)
