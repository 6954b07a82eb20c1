"""A request that is served in the place of another one: it came in an Envelope, or another node was to serve it and this node's controller leads now.

Owner: the data plane. Its handler and the check of rights are those of any other request. Where the answer goes is up to the subclass."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from streamactors.broker.errors import ErrorCode
from streamactors.broker.network.output import Part
from streamactors.broker.node import Node
from streamactors.broker.requests.api import LATER, Api
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import NOT_ALLOWED, each


class InnerRequest(Request):
    """A forwarded request at the active controller. It is answered once; later answers are dropped."""

    forwarded = True
    __slots__ = ("_whole_api",)

    def __init__(self, node: Node, client: Any, header: Any, api: Api, size: int, received_at_ms: float) -> None:
        super().__init__(node, client, header, api, size, received_at_ms)
        self._whole_api = api

    def serve(self) -> None:
        """Check the client's rights and call the handler."""
        api = self._whole_api
        try:
            if api.authorise is not each and (denied := api.authorise(self)):
                self.refuse(denied, NOT_ALLOWED.get(denied))
                return
            answer = api.handle(self)
        except Exception as error:  # noqa: BLE001 - a bug of one handler must not stop the controller
            self.fail(error)
            return
        if answer is not LATER:
            self.answer_here(answer)

    def answer_here(self, answer: Any) -> None:
        """As `answer`. If this controller no longer leads, the broker that forwards learns it, and asks the next controller."""
        if not self.answered and _names(answer, ErrorCode.NOT_CONTROLLER):
            self.answered = True
            self._not_controller()
            return
        super().answer_here(answer)

    def _finish(self, parts: list[Part]) -> None:
        if not self.answered:
            self.answered = True
            self._pass_on(parts)

    @abstractmethod
    def _not_controller(self) -> None:
        """The controller does not lead: another one has to be asked."""

    @abstractmethod
    def _pass_on(self, parts: list[Part]) -> None:
        """Give the encoded answer to the client."""


def _names(answer: Any, code: ErrorCode) -> bool:
    """Whether an answer has this error, at its top or for one of the things that it is about."""
    if isinstance(answer, Mapping):
        return answer.get("error_code") == code or any(_names(each, code) for each in answer.values())
    return isinstance(answer, list | tuple) and any(_names(each, code) for each in answer)
