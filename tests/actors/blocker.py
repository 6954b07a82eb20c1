"""An actor that blocks until the test lets it go."""

from __future__ import annotations

import threading
from typing import Any

from streamactors.actors.messages import Actor, ActorExitRequest


class Blocker(Actor):
    """Blocks on the gate it was given."""

    def __init__(self, gate: threading.Event, inside: threading.Event) -> None:
        self.gate, self.inside = gate, inside

    def receiveMessage(self, message: Any, sender: Any) -> None:
        if not isinstance(message, ActorExitRequest):
            self.inside.set()
            self.gate.wait(60)
