"""Ordinary Thespian actors, written for no particular system base, where a process of theirs can import them."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any

from thespian.actors import (
    Actor,
    ActorExitRequest,
    ActorTypeDispatcher,
    ChildActorExited,
    DeadEnvelope,
    ThespianWatch,
    WakeupMessage,
    WatchMessage,
)
from thespian.troupe import troupe


class Echo(Actor):
    def receiveMessage(self, message: Any, sender: Any) -> None:
        if not isinstance(message, ActorExitRequest):
            self.send(sender, message)


class Alarm(ActorTypeDispatcher):
    """Sets the wakeups of a message [(ms, payload)], and answers with the payloads in the order of their arrival."""

    def receiveMsg_list(self, wakeups: list[tuple[int, str]], sender: Any) -> None:
        self.asker, self.left, self.heard = sender, len(wakeups), []
        for ms, payload in wakeups:
            self.wakeupAfter(timedelta(milliseconds=ms), payload)

    def receiveMsg_WakeupMessage(self, wakeup: WakeupMessage, sender: Any) -> None:
        self.heard.append((wakeup.payload, round(wakeup.delayPeriod.total_seconds() * 1000), sender == self.myAddress))
        self.left -= 1
        if self.left == 0:
            self.send(self.asker, self.heard)


class Worker(ActorTypeDispatcher):
    """Counts; "die" ends it."""

    def __init__(self) -> None:
        self.count = 0

    def receiveMsg_str(self, message: str, sender: Any) -> None:
        if message == "die":
            self.send(self.myAddress, ActorExitRequest())
        else:
            self.count += 1
            self.send(sender, self.count)


class Boss(ActorTypeDispatcher):
    """Passes questions on to its worker. Replaces a worker that has exited, and answers the asker that it has."""

    def __init__(self) -> None:
        self.worker: Any = None
        self.asker: Any = None
        self.deaths = 0

    def receiveMsg_str(self, message: str, sender: Any) -> None:
        if self.worker is None:
            self.worker = self.createActor(Worker)
        self.asker = sender
        self.send(self.worker, message)

    def receiveMsg_int(self, count: int, sender: Any) -> None:
        self.send(self.asker, ("count", count))

    def receiveMsg_ChildActorExited(self, exited: ChildActorExited, sender: Any) -> None:
        if exited.childAddress == self.worker:
            self.deaths += 1
            self.worker = self.createActor(Worker)
            self.send(self.asker, ("deaths", self.deaths))


class Failing(Actor):
    """Raises on "fail", twice; on "fail once" only the first time. "calls" tells how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def receiveMessage(self, message: Any, sender: Any) -> None:
        self.calls += 1
        if message == "fail" or (message == "fail once" and self.calls == 1):
            raise ValueError("told to fail")
        if message in ("calls", "fail once"):
            self.send(sender, self.calls)


class Undertaker(ActorTypeDispatcher):
    """Handles dead letters. "victim" makes a child and kills it; "bury" sends it a message once it is dead."""

    def __init__(self) -> None:
        self.letters: list[str] = []
        self.asker: Any = None

    def receiveMsg_str(self, message: str, sender: Any) -> None:
        if message == "letters":
            self.send(sender, self.letters)
            return
        self.asker = sender
        self.handleDeadLetters()
        self.victim = self.createActor(Echo)
        self.send(self.victim, ActorExitRequest())

    def receiveMsg_ChildActorExited(self, exited: ChildActorExited, sender: Any) -> None:
        if exited.childAddress == self.victim:
            self.victim = None  # Thespian's TCP base may say it twice
            self.send(exited.childAddress, "are you there?")

    def receiveMsg_DeadEnvelope(self, letter: DeadEnvelope, sender: Any) -> None:
        self.letters.append(letter.deadMessage)
        self.send(self.asker, letter.deadMessage)


class CannotStart(Actor):
    def __init__(self) -> None:
        raise RuntimeError("cannot start")


class ParentOfCannotStart(ActorTypeDispatcher):
    def receiveMsg_str(self, message: str, sender: Any) -> None:
        self.asker, self.told = sender, False
        self.child = self.createActor(CannotStart)

    def receiveMsg_ChildActorExited(self, exited: ChildActorExited, sender: Any) -> None:
        if not self.told:  # Thespian's TCP base says it twice
            self.told = True
            self.send(self.asker, "child exited")


class Animal:
    pass


class Dog(Animal):
    pass


class BaseHandler(ActorTypeDispatcher):
    def receiveMsg_Animal(self, message: Animal, sender: Any) -> None:
        self.send(sender, f"base saw {type(message).__name__}")

    def receiveUnrecognizedMessage(self, message: Any, sender: Any) -> None:
        if not isinstance(message, ActorExitRequest):
            self.send(sender, f"unrecognized {type(message).__name__}")


class DogHandler(BaseHandler):
    def receiveMsg_Dog(self, message: Dog, sender: Any) -> Any:
        self.send(sender, "dog handler passes on")
        return self.SUPER


class Namesake(ActorTypeDispatcher):
    """Creates a globally named Worker and answers with what it counted."""

    def receiveMsg_str(self, message: str, sender: Any) -> None:
        self.asker = sender
        self.send(self.createActor(Worker, globalName="the one worker"), message)

    def receiveMsg_int(self, count: int, sender: Any) -> None:
        self.send(self.asker, count)


class Family(ActorTypeDispatcher):
    """ "grow" makes a child. When the actor exits, its children exit too."""

    def receiveMsg_str(self, message: str, sender: Any) -> None:
        self.send(sender, self.createActor(Echo))


class SocketEcho(ActorTypeDispatcher):
    """A TCP echo server on ThespianWatch. "listen" answers with the port."""

    def receiveMsg_str(self, message: str, sender: Any) -> ThespianWatch:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.connections: dict[int, socket.socket] = {}
        self.send(sender, self.listener.getsockname()[1])
        return self.watched()

    def receiveMsg_WatchMessage(self, watch: WatchMessage, sender: Any) -> ThespianWatch:
        for fd in watch.ready:
            if fd == self.listener.fileno():
                connection, _ = self.listener.accept()
                self.connections[connection.fileno()] = connection
            elif data := self.connections[fd].recv(65536):
                self.connections[fd].sendall(data)
            else:
                self.connections.pop(fd).close()
        return self.watched()

    def receiveMsg_ActorExitRequest(self, request: ActorExitRequest, sender: Any) -> None:
        for connection in (self.listener, *self.connections.values()):
            connection.close()

    def watched(self) -> ThespianWatch:
        return ThespianWatch([self.listener.fileno(), *self.connections])


@troupe(max_count=4, idle_count=2)
class Crew(ActorTypeDispatcher):
    def receiveMsg_int(self, message: int, sender: Any) -> None:
        self.send(sender, message * 2)
