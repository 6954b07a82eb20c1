"""ExpireDelegationToken: lets a token end after a period; a negative period ends it at once.

Versions: 1-2 (2 flexible).   Authorised: the token's owner, its requester, and its renewers.
Errors: those of RenewDelegationToken.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.token_requests import change, refuse_change, why_not
from streamactors.broker.requests.api import Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import each


def handle(request: Request) -> Body | Later:
    return change(request, request.message.expiry_time_period_ms, renew=False)


API: Final = Api(
    key=40, versions=(1, 2), authorise=each, handle=handle, refuse=refuse_change, here=why_not, forwarded=True
)
