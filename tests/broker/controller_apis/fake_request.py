"""A request to a controller, decoded, and what the controller is asked because of it. No network and no thread."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class FakeRequest:
    """`submitted`: (command, reply) each; `answers`: what the handler made of the answers that the test gives to `reply`."""

    def __init__(self, version: int, **message: Any) -> None:
        self.version = version
        self.message = SimpleNamespace(**message)
        self.submitted: list[tuple[Any, Any]] = []
        controller = SimpleNamespace(submit=lambda command, reply: self.submitted.append((command, reply)))
        self.node = SimpleNamespace(cluster_id="c", controller=controller)
        self.answers: list[Any] = []

    def answer_with(self, make: Any) -> Any:
        return lambda answer: self.answers.append(make(answer))
