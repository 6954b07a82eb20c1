"""PubSub: streams that publish to a topic, or subscribe to one. A topic is an actor: `system.create_actor(Topic)`."""

from __future__ import annotations

from typing import Any

from streamactors.actors.address import ActorRef
from streamactors.actors.futures import StreamFuture
from streamactors.actors.topic import Publish
from streamactors.dsl.sink import Sink
from streamactors.dsl.source import Source
from streamactors.engine.blueprint.modules import StageModule
from streamactors.engine.stage import NotUsed
from streamactors.stages.defaults import NO_MESSAGE
from streamactors.stages.rate.strategies import Overflow
from streamactors.stages.sinks.actor_tell import TellSink
from streamactors.stages.sources.actor_ref import TopicSource


class PubSub:
    """A topic has no back-pressure: a subscriber that is slow for long loses messages, or fails, as it chose."""

    @staticmethod
    def source(topic: ActorRef, buffer: int = 1_024, overflow: Overflow = "drop_head") -> Source[Any, NotUsed]:
        """Return a source of the messages that are published from the start of its run on.

        Up to `buffer` messages are held while there is no demand; then `overflow` decides (see `Source.queue`).
        Emits when: there is demand and a message is held.   Backpressures when: never.
        Completes when: never.                        Fails when: the topic ends; with overflow "fail", when `buffer` are held.

        Example:
            a -x-y-z|
            a.run_with(PubSub.sink(topic))
            PubSub.source(topic).take(2)
        """
        return Source(StageModule(TopicSource(topic, buffer, overflow)))

    @staticmethod
    def sink(topic: ActorRef) -> Sink[Any, StreamFuture[None]]:
        """Return a sink that publishes each element; the end of its stream is not published.

        Materializes: a future that ends with the stream.   Backpressures when: never.   Cancels when: the topic ends.

        Example:
            from streamactors import ActorSystem, PubSub, Sink, Source, VirtualClock
            from streamactors.actors import Topic

            with ActorSystem("example", clock=VirtualClock()) as system:
                topic = system.create_actor(Topic)
                first_two = PubSub.source(topic).take(2).run_with(Sink.to_list(), system)
                system.clock.settle()                                    # the source has subscribed
                Source.from_iterable("abc").run_with(PubSub.sink(topic), system)
                print(first_two.result(timeout=5))
        """
        return Sink(StageModule(TellSink(topic, NO_MESSAGE, lambda error: NO_MESSAGE, Publish)))
