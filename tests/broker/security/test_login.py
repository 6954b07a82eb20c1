"""The login of a connection: which requests it admits, in which order, for how long."""

from __future__ import annotations

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.security.login import Login, LoginState
from streamactors.broker.security.sasl.mechanism import MAX_TOKEN_BYTES
from streamactors.broker.security.sasl.plain import Plain, passwords_of

API_VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA, PRODUCE = 18, 17, 36, 3, 0
GOOD, OTHER, BAD = b"\0ann\0pw", b"\0bob\0b", b"\0ann\0no"


class Clock:
    now_ms = 1_000.0


def login(max_session_ms: int = 0) -> Login:
    return Login({"PLAIN": lambda: Plain({"ann": "pw", "bob": "b"})}, max_session_ms, lambda: Clock.now_ms)


def logged_in(max_session_ms: int = 0) -> Login:
    made = login(max_session_ms)
    assert made.handshake("PLAIN", 1) == ErrorCode.NONE
    assert made.token(GOOD).code == ErrorCode.NONE
    return made


def test_before_the_login_only_three_apis_are_served() -> None:
    made = login()
    assert [key for key in range(90) if made.why_not(key) is None] == [HANDSHAKE, API_VERSIONS]
    made.handshake("PLAIN", 1)
    assert [key for key in range(90) if made.why_not(key) is None] == [AUTHENTICATE]
    made.token(GOOD)
    assert [key for key in range(90) if made.why_not(key) is not None] == []
    assert made.principal == "User:ann"


def test_a_refused_login_admits_nothing_more() -> None:
    made = login()
    made.handshake("PLAIN", 1)
    answered = made.token(BAD)
    assert (answered.code, answered.message) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "Authentication failed: Invalid username or password",
    )
    assert made.state is LoginState.FAILED
    assert [key for key in range(90) if made.why_not(key) is None] == []
    assert made.token(GOOD).code == ErrorCode.ILLEGAL_SASL_STATE
    assert made.handshake("PLAIN", 1) == ErrorCode.ILLEGAL_SASL_STATE


def test_an_unknown_user_and_a_wrong_password_have_one_answer() -> None:
    answers = set()
    for token in (BAD, b"\0nobody\0pw"):
        made = login()
        made.handshake("PLAIN", 1)
        answers.add(made.token(token))
    assert len(answers) == 1


def test_a_mechanism_that_is_not_enabled_is_refused() -> None:
    made = login()
    assert made.handshake("GSSAPI", 1) == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert made.state is LoginState.FAILED
    assert made.enabled == ["PLAIN"]


def test_a_token_before_the_handshake_is_refused() -> None:
    assert login().token(GOOD).code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize(
    "token", [b"", b"ann", b"\0\0", b"\0ann\0", b"\0\0pw", b"\0\xff\0pw", b"bob\0ann\0pw", b"a\0b\0c\0d"]
)
def test_a_token_that_is_none_fails(token: bytes) -> None:
    made = login()
    made.handshake("PLAIN", 1)
    assert made.token(token).code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_token_beyond_the_limit_is_not_looked_at() -> None:
    made = login()
    made.handshake("PLAIN", 1)
    assert "too long" in str(made.token(GOOD + b"x" * MAX_TOKEN_BYTES).message)


def test_a_session_ends_unless_the_client_logs_in_again() -> None:
    made = logged_in(max_session_ms=500)
    Clock.now_ms += 499
    assert made.why_not(PRODUCE) is None
    Clock.now_ms += 2
    assert "session has ended" in str(made.why_not(PRODUCE))
    assert made.why_not(HANDSHAKE) is None
    made.handshake("PLAIN", 1)
    assert made.token(GOOD).lifetime_ms == 500
    assert made.why_not(PRODUCE) is None


def test_another_user_cannot_take_over_an_open_connection() -> None:
    made = logged_in()
    made.handshake("PLAIN", 1)
    answered = made.token(OTHER)
    assert (answered.code, answered.message) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "Cannot change principals during re-authentication",
    )


def test_users_of_plain_as_kafka_writes_them() -> None:
    jaas = (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="x" '
        'user_admin="x" user_ann="p\\"w=;" user_bob=\'b\';'
    )
    assert passwords_of(jaas) == {"admin": "x", "ann": 'p"w=;', "bob": "b"}
