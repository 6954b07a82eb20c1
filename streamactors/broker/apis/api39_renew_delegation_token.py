"""RenewDelegationToken: extends the life of a token, at most until its end.

Versions: 1-2 (2 flexible).   Authorised: the token's owner, its requester, and its renewers.
Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH,
DELEGATION_TOKEN_EXPIRED.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.token_requests import change, refuse_change, why_not
from streamactors.broker.requests.api import Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import each


def handle(request: Request) -> Body | Later:
    return change(request, request.message.renew_period_ms, renew=True)


API: Final = Api(
    key=39, versions=(1, 2), authorise=each, handle=handle, refuse=refuse_change, here=why_not, forwarded=True
)
