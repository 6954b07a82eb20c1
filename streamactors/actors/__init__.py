"""Thespian actors on an in-process system base: dispatchers, an elastic pool, timers and supervision.

`system.py` is the user's view. `local_system.py` is the system base: it makes a `running_actor.py` per actor, whose turns
(`cell.py`) run on the pool (`elastic_pool.py`) or on a dispatcher (`dispatcher.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamactors.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamactors.actors.messages import Actor as Actor
    from streamactors.actors.messages import ActorExitRequest as ActorExitRequest
    from streamactors.actors.messages import ActorTypeDispatcher as ActorTypeDispatcher
    from streamactors.actors.messages import ChildActorExited as ChildActorExited
    from streamactors.actors.messages import PoisonMessage as PoisonMessage
    from streamactors.actors.messages import ThespianWatch as ThespianWatch
    from streamactors.actors.messages import WakeupMessage as WakeupMessage
    from streamactors.actors.messages import WatchMessage as WatchMessage
    from streamactors.actors.running.running_actor import unwatch_actor as unwatch_actor
    from streamactors.actors.running.running_actor import watch_actor as watch_actor
    from streamactors.actors.running.supervision import ActorTerminated as ActorTerminated
    from streamactors.actors.running.supervision import Supervision as Supervision
    from streamactors.actors.status_reply import StatusError as StatusError
    from streamactors.actors.status_reply import StatusReply as StatusReply
    from streamactors.actors.system import ActorSystem as ActorSystem
    from streamactors.actors.topic import Publish as Publish
    from streamactors.actors.topic import Subscribe as Subscribe
    from streamactors.actors.topic import Topic as Topic
    from streamactors.actors.topic import Unsubscribe as Unsubscribe

__getattr__, __dir__ = lazy_names(__name__)
