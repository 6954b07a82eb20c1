"""Requests of clients that are broken."""

from __future__ import annotations

import os
import random

from streamactors.broker.protocol.api_keys import NAMES
from streamactors.broker.protocol.header import request_frame
from streamactors.broker.protocol.messages import encode_request
from streamactors.broker.protocol.schema import known_versions
from tests.broker.live_broker import batch, fetch_body, produce_body


def random_request(rng: random.Random) -> bytes:
    """A request frame of a client that is broken: right, mutilated, or noise under a right header."""
    kind = rng.randrange(4)
    if kind == 0:
        return os.urandom(rng.randrange(200))
    key = rng.choice(sorted(NAMES))
    low, high = known_versions(key)
    version = rng.randint(low, high)
    if kind == 1:
        return request_frame(key, version, rng.getrandbits(31), "fuzz", rng.randbytes(rng.randrange(120)))[4:]
    if rng.random() < 0.5:
        body = request_frame(0, 9, 1, "fuzz", encode_request(0, 9, produce_body(batch(b"x" * rng.randrange(300)))))[4:]
    else:
        body = request_frame(1, 12, 1, "fuzz", encode_request(1, 12, fetch_body()))[4:]
    mutilated = bytearray(body)
    for _ in range(rng.randrange(1, 5)):
        mutilated[rng.randrange(len(mutilated))] = rng.getrandbits(8)
    return bytes(mutilated[: rng.randrange(1, len(mutilated) + 1)] if kind == 2 else mutilated)
