"""The actors of the network: who accepts, and who owns the connections.

Owner: the server makes them, on the data plane's dispatcher. Their life, new connections and orders come as messages; a
request on its way through the broker is a plain call (an actor's message for each would cost as much again as the
request)."""

from __future__ import annotations

import socket
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from streamactors.actors.cell import Cell
from streamactors.actors.dispatcher import Dispatcher
from streamactors.actors.messages import ActorAddress, ActorTypeDispatcher
from streamactors.broker.network.acceptor import Acceptor
from streamactors.broker.network.listener import Listener
from streamactors.broker.network.processor import Processor


@dataclass(frozen=True, slots=True)
class Start:
    """Begin to work; `done` gets None, or the error that prevents it."""

    done: Future[None]


@dataclass(frozen=True, slots=True)
class Stop:
    """Close what there is and work no more."""

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

    def receiveMsg_Start(self, message: Start, _sender: ActorAddress | None) -> None:
        _carry_out(self.part.start, message.done)

    def receiveMsg_Stop(self, message: Stop, _sender: ActorAddress | None) -> None:
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
    """Run the actor on a dispatcher; return the mailbox that its messages go to."""

    def receive(message: Any) -> None:
        actor.receiveMessage(message, None)

    return dispatcher.spawn(receive, name)


def _carry_out(fn: Any, done: Future[None]) -> None:
    try:
        fn()
    except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
        done.set_exception(error)
    else:
        done.set_result(None)
