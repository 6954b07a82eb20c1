"""Kafka: sources and sinks with back-pressure that reaches the partitions. Names are loaded when first used.

The facades that users call are here and in `round_trips/`: `Consumer` makes the stages of `sources/`, which the consumer actor of `reading/` feeds;
`Producer` makes the stages of `writing/`, `Committer` those of `committing/`, `Transactional` those of `transactions/`. `state/` has what
windows need of Kafka: changelogs, repartition topics, queries. Only `client/` imports librdkafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamactors.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamactors.kafka.async_api import asyncapi as asyncapi
    from streamactors.kafka.client.admin import Admin as Admin
    from streamactors.kafka.committable import CommittableMessage as CommittableMessage
    from streamactors.kafka.committable import CommittableOffset as CommittableOffset
    from streamactors.kafka.committable import CommittableOffsetBatch as CommittableOffsetBatch
    from streamactors.kafka.committer import Committer as Committer
    from streamactors.kafka.consumer import Consumer as Consumer
    from streamactors.kafka.controls.control import Control as Control
    from streamactors.kafka.controls.control import NoopControl as NoopControl
    from streamactors.kafka.controls.draining_control import DrainingControl as DrainingControl
    from streamactors.kafka.dead_letters import DeadLetter as DeadLetter
    from streamactors.kafka.dead_letters import DeadLetters as DeadLetters
    from streamactors.kafka.dead_letters import Err as Err
    from streamactors.kafka.metadata_client import AsyncMetadataClient as AsyncMetadataClient
    from streamactors.kafka.metadata_client import MetadataClient as MetadataClient
    from streamactors.kafka.producer import Producer as Producer
    from streamactors.kafka.producer_record import ProducerMessage as ProducerMessage
    from streamactors.kafka.producer_record import ProducerRecord as ProducerRecord
    from streamactors.kafka.record import ConsumerRecord as ConsumerRecord
    from streamactors.kafka.restart_control import RestartControl as RestartControl
    from streamactors.kafka.round_trips.retry_topics import RetryTopics as RetryTopics
    from streamactors.kafka.round_trips.through import through_topic as through_topic
    from streamactors.kafka.round_trips.transactional import Transactional as Transactional
    from streamactors.kafka.send_producer import SendProducer as SendProducer
    from streamactors.kafka.serdes.registry_serdes import AvroSerde as AvroSerde
    from streamactors.kafka.serdes.registry_serdes import JsonSchemaSerde as JsonSchemaSerde
    from streamactors.kafka.serdes.registry_serdes import ProtobufSerde as ProtobufSerde
    from streamactors.kafka.serdes.serdes import Serde as Serde
    from streamactors.kafka.settings import CommitterSettings as CommitterSettings
    from streamactors.kafka.settings import ConsumerSettings as ConsumerSettings
    from streamactors.kafka.settings import ProducerSettings as ProducerSettings
    from streamactors.kafka.settings import ResetProtection as ResetProtection
    from streamactors.kafka.sources.share_group.share_settings import SharedSourceSettings as SharedSourceSettings
    from streamactors.kafka.sources.share_group.shared_record import SharedRecord as SharedRecord
    from streamactors.kafka.sources.shared.shared_consumer import SharedConsumer as SharedConsumer
    from streamactors.kafka.subscriptions import PartitionAssignmentHandler as PartitionAssignmentHandler
    from streamactors.kafka.subscriptions import PartitionOffset as PartitionOffset
    from streamactors.kafka.subscriptions import RestrictedConsumer as RestrictedConsumer
    from streamactors.kafka.subscriptions import Subscriptions as Subscriptions
    from streamactors.kafka.subscriptions import TopicPartition as TopicPartition

__getattr__, __dir__ = lazy_names(__name__)
