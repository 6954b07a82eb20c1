"""The controller of the simulated partition: it never fails, registers brokers, elects leaders and changes the ISR.

Rules: Apache Kafka's controller without ELR and unclean elections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from streamactors.broker.replication.leader_state import Proposal

if TYPE_CHECKING:
    from tests.simulation.replication_world import World

CONTROLLER: Final = 0
BROKERS: Final = (1, 2, 3)
NO_LEADER: Final = -1
SESSION: Final = 90.0


class NothingPromised(Exception):
    """Every member of the ISR has lost records: a power cut of the last one that had them all."""


@dataclass(frozen=True)
class Image:
    """The partition and the brokers at one offset of the metadata log."""

    leader: int = 1
    leader_epoch: int = 0
    isr: tuple[int, ...] = BROKERS
    partition_epoch: int = 0
    brokers: Mapping[int, tuple[int, bool]] = field(default_factory=dict)  # id -> broker epoch, fenced


class Controller:
    """Elects leaders, and changes the ISR when the leader asks."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.images = [Image()]
        self.heard: dict[int, float] = {}
        self.incarnations: dict[tuple[int, int], tuple[int, int]] = {}  # (broker, life) -> broker epoch, version

    @property
    def image(self) -> Image:
        return self.images[-1]

    def publish(self, image: Image) -> None:
        self.images.append(image)
        if all(self.world.nodes[each].lost for each in image.isr):
            raise NothingPromised
        self.world.note("image", image)
        for broker in BROKERS:
            self.world.send(CONTROLLER, broker, self.world.nodes[broker].catch_up)

    def register(self, broker: int, life: int, *, clean: bool) -> None:
        node = self.world.nodes[broker]
        if node.life != life or not node.alive:
            return
        if (broker, life) in self.incarnations:  # the answer to an earlier attempt was lost
            self.world.send(CONTROLLER, broker, node.registered, life, *self.incarnations[broker, life])
            return
        image = self.image
        epoch = len(self.images)
        image = replace(image, brokers={**image.brokers, broker: (epoch, True)})
        if broker in image.isr and not clean and len(image.isr) > 1:
            image = replace(
                image,
                isr=tuple(each for each in image.isr if each != broker),
                partition_epoch=image.partition_epoch + 1,
            )
        self.heard[broker] = self.world.now
        node.lost = node.lost and broker in image.isr
        self.publish(self.elected(image))
        self.incarnations[broker, life] = epoch, len(self.images) - 1
        self.world.send(CONTROLLER, broker, node.registered, life, *self.incarnations[broker, life])

    def heartbeat(self, broker: int, broker_epoch: int, version: int) -> None:
        known = self.image.brokers.get(broker)
        if known is None or known[0] != broker_epoch:
            return
        self.heard[broker] = self.world.now
        if known[1] and version >= broker_epoch:
            image = replace(self.image, brokers={**self.image.brokers, broker: (broker_epoch, False)})
            self.publish(self.elected(image))

    def tick(self) -> None:
        for broker, (epoch, fenced) in self.image.brokers.items():
            if not fenced and self.world.now - self.heard[broker] > SESSION:
                image = replace(self.image, brokers={**self.image.brokers, broker: (epoch, True)})
                if broker in image.isr and len(image.isr) > 1:
                    image = replace(
                        image,
                        isr=tuple(each for each in image.isr if each != broker),
                        partition_epoch=image.partition_epoch + 1,
                    )
                self.publish(self.elected(image))
        self.world.later(10.0, self.tick)

    def elected(self, image: Image) -> Image:
        """Return the image with a leader that is in the ISR and alive, or with none."""

        def alive(broker: int) -> bool:
            return broker in image.isr and not image.brokers.get(broker, (0, True))[1]

        if alive(image.leader):
            return image
        leader = next((each for each in BROKERS if alive(each)), NO_LEADER)
        if leader == image.leader:
            return image
        return replace(
            image, leader=leader, leader_epoch=image.leader_epoch + 1, partition_epoch=image.partition_epoch + 1
        )

    def alter(
        self,
        broker: int,
        broker_epoch: int,
        proposal: Proposal,
        epochs: Mapping[int, int],
        answer: Callable[[str], object],
    ) -> None:
        image = self.image
        if image.brokers.get(broker, (0, True))[0] != broker_epoch:
            answer("stale broker")
        elif proposal.leader_epoch != image.leader_epoch or broker != image.leader:
            answer("fenced")
        elif proposal.partition_epoch != image.partition_epoch:
            answer("old")
        elif any(image.brokers.get(each, (0, True))[1] for each in proposal.isr if each != broker) or any(
            image.brokers[each][0] != epoch for each, epoch in epochs.items() if self.world.rules.checks_broker_epoch
        ):
            answer("ineligible")
        else:
            self.publish(replace(image, isr=proposal.isr, partition_epoch=image.partition_epoch + 1))
            answer("done")
