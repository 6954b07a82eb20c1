"""The rules of the commands about delegation tokens. Pure, as all rules.

Source: Kafka's DelegationTokenControlManager."""

from __future__ import annotations

from dataclasses import replace

from streamactors.broker.controller.command import ChangeToken, CreateToken, Facts, PlannedChange, TokenChanged
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.metadata_record import MetadataRecord
from streamactors.broker.metadata.security_record import DelegationToken, RemoveDelegationToken


def create_token(facts: Facts, command: CreateToken) -> PlannedChange:
    """Add a token, and remove those that have expired."""
    config = facts.config
    longest_ms = config.delegation_token_max_lifetime_ms
    lifetime_ms = min(longest_ms, command.max_lifetime_ms) if command.max_lifetime_ms > 0 else longest_ms
    valid_until_ms = command.now_ms + lifetime_ms
    token = DelegationToken(
        command.owner,
        command.requester,
        command.renewers,
        command.now_ms,
        valid_until_ms,
        min(valid_until_ms, command.now_ms + config.delegation_token_expiry_time_ms),
        command.token_id,
    )
    over: list[MetadataRecord] = [
        RemoveDelegationToken(old.token_id) for old in facts.image.tokens.values() if old.is_over(command.now_ms)
    ]
    return PlannedChange([*over, token], TokenChanged(ErrorCode.NONE, token))


def change_token(facts: Facts, command: ChangeToken) -> PlannedChange:
    """Renew a token, or let it expire earlier or at once."""
    token = facts.image.tokens.get(command.token_id)
    if token is None:
        return PlannedChange([], TokenChanged(ErrorCode.DELEGATION_TOKEN_NOT_FOUND))
    if not token.is_of(command.principal):
        return PlannedChange([], TokenChanged(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
    if token.is_over(command.now_ms):
        return PlannedChange([], TokenChanged(ErrorCode.DELEGATION_TOKEN_EXPIRED))
    if command.period_ms < 0 and not command.renew:
        return PlannedChange(
            [RemoveDelegationToken(token.token_id)],
            TokenChanged(ErrorCode.NONE, replace(token, expires_at_ms=command.now_ms)),
        )
    period_ms = facts.config.delegation_token_expiry_time_ms if command.period_ms < 0 else command.period_ms
    changed = replace(token, expires_at_ms=min(token.valid_until_ms, command.now_ms + period_ms))
    return PlannedChange([changed], TokenChanged(ErrorCode.NONE, changed))
