"""The system base as its actors and addresses use it; `LocalSystemBase` is the only implementation."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from thespian.actors import ActorAddress

from streamactors.actors.address import ActorRef
from streamactors.actors.cell import Executor
from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.clock import Clock


class SystemBase(Protocol):
    """`parent` and `actor` are cells of actors; the methods named in camelCase are Thespian's."""

    name: str
    clock: Clock
    timers: Dispatcher
    nobody: ActorRef
    system_address: ActorRef

    @property
    def closing(self) -> bool: ...
    def create_child(
        self,
        parent: Any,
        actor_class: Any,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None = None,
        /,
    ) -> ActorRef: ...
    def newPrimaryActor(self, *arguments: Any) -> ActorRef: ...
    def forget(self, actor: Any, /) -> None: ...
    def selector_of(self, executor: Executor, /) -> Dispatcher: ...
    def dead_address(self) -> ActorRef: ...
    def dead_letter(self, address: ActorAddress, message: Any, sender: ActorRef | None, /) -> None: ...
    def updateCapability(self, name: str, value: Any, /) -> None: ...
    def _handleDeadLetters(self, address: ActorRef, enable: bool, /) -> None: ...
    def no_source_loading(self, what: str, /) -> NoReturn: ...
    def shutdown(self) -> None: ...
