"""Whether a loop has nothing to do: no descriptor of it is ready, so that its next poll sleeps."""

from __future__ import annotations

import threading

from streamactors.actors.dispatching.descriptors import name_of
from streamactors.actors.dispatching.dispatcher import Dispatcher


def ready_in(dispatcher: Dispatcher) -> list[str]:
    """Return the callbacks that would be called next, the wake-up by this function aside. An idle loop has none.

    A descriptor that is ready although nobody has sent anything would be ready in every round: the loop would never sleep."""
    found: list[str] = []
    done = threading.Event()

    def look() -> None:
        descriptors, waker = dispatcher._descriptors, dispatcher._waker.fd
        for fd, _ in descriptors.poll(0):
            registration = descriptors._registrations[fd]
            if fd != waker:
                found.append(name_of(registration.on_writable or registration.on_readable))
        done.set()

    dispatcher.execute(look)
    assert done.wait(30)
    return found
