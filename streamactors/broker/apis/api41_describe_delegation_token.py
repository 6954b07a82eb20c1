"""DescribeDelegationToken: the tokens of some owners, or of all, that the client may see.

Versions: 1-3 (2 flexible, 3 who asked for it KIP-373).   Authorised: own tokens; others by DESCRIBE on DELEGATION_TOKEN or DESCRIBE_TOKENS on the
owner's USER.
Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED.
Differs from Apache Kafka: a token that has expired is not shown; Apache Kafka shows it until its hourly check."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.apis.token_requests import named, principals, why_not
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.security_record import DelegationToken
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each

_FIRST_WITH_REQUESTER: Final = 3


def handle(request: Request) -> Body:
    code = why_not(request)
    if code is not ErrorCode.NONE:
        return refuse(request, code)
    owners = request.message.owners
    wanted = None if owners is None else principals(owners)
    now_ms = request.node.clock.wall_ms()
    tokens = request.node.metadata.image.tokens.values()
    shown = [
        _shown(request, token)
        for token in tokens
        if not token.is_over(now_ms)
        and (wanted is None or any(token.is_of(each) for each in wanted))
        and _may_see(request, token)
    ]
    return {"error_code": ErrorCode.NONE, "tokens": shown}


def _may_see(request: Request, token: DelegationToken) -> bool:
    return (
        token.is_of(request.principal)
        or request.allowed(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or request.allowed(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _shown(request: Request, token: DelegationToken) -> dict[str, Any]:
    kind, name = named(token.owner)
    renewers = [dict(zip(("principal_type", "principal_name"), named(each), strict=True)) for each in token.renewers]
    shown = {
        "principal_type": kind,
        "principal_name": name,
        "issue_timestamp": token.issued_at_ms,
        "expiry_timestamp": token.expires_at_ms,
        "max_timestamp": token.valid_until_ms,
        "token_id": token.token_id,
        "hmac": request.node.tokens.hmac(token),
        "renewers": renewers,
    }
    if request.version >= _FIRST_WITH_REQUESTER:
        kind, name = named(token.requester)
        shown |= {"token_requester_principal_type": kind, "token_requester_principal_name": name}
    return shown


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"error_code": code, "tokens": ()}


API: Final = Api(key=41, versions=(1, 3), authorise=each, handle=handle, refuse=refuse)
