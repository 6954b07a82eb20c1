"""The actors of the network: one accepts connections, one owns them.

Owner: the server creates them on the data plane's dispatcher. Start, stop and new connections are messages. A request is a
plain call through the broker, because a message per request would double its cost."""

from __future__ import annotations

import socket
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from streamactors.actors.cell import Cell
from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.messages import ActorAddress, ActorTypeDispatcher
from streamactors.broker.network.acceptor import Acceptor
from streamactors.broker.network.listener import Listener
from streamactors.broker.network.processor import Processor


@dataclass(frozen=True, slots=True)
class StartServing:
    """Start. `done` gets None, or the error of the start."""

    done: Future[None]


@dataclass(frozen=True, slots=True)
class StopServing:
    """Close everything and stop."""

    done: Future[None]


@dataclass(frozen=True, slots=True)
class Adopt:
    """A connection that has been accepted."""

    socket: socket.socket
    listener: Listener


class _NetworkActor(ActorTypeDispatcher):  # type: ignore[misc]
    """Starts and stops its part."""

    def __init__(self, part: Acceptor | Processor) -> None:
        super().__init__()
        self.part = part

    def receiveMsg_StartServing(self, message: StartServing, _sender: ActorAddress | None) -> None:
        _carry_out(self.part.start, message.done)

    def receiveMsg_StopServing(self, message: StopServing, _sender: ActorAddress | None) -> None:
        _carry_out(self.part.stop, message.done)


class AcceptorActor(_NetworkActor):
    """Owns the listening sockets."""

    part: Acceptor


class ProcessorActor(_NetworkActor):
    """Owns the connections."""

    part: Processor

    def receiveMsg_Adopt(self, message: Adopt, _sender: ActorAddress | None) -> None:
        self.part.adopt(message.socket, message.listener)


def spawn(actor: _NetworkActor, dispatcher: Dispatcher, name: str) -> Cell:
    """Run the actor on a dispatcher. Return its mailbox."""

    def receive(message: Any) -> None:
        actor.receiveMessage(message, None)

    return dispatcher.spawn(receive, name)


def _carry_out(fn: Any, done: Future[None]) -> None:
    try:
        fn()
    except BaseException as error:  # noqa: BLE001 - the waiting caller raises it again
        done.set_exception(error)
    else:
        done.set_result(None)
