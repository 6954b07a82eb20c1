"""A `Cluster` with the authoriser: rights of users, users that come and go, and settings that are refused."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from streamactors.broker import Acl, Cluster
from streamactors.broker.errors import BrokerStartError, ErrorCode
from tests.broker.security.door_clients import consume, produce, wire

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
DOORS = ((False, ("ann",)), (True, ("ann",)), (True, ()))


def test_without_a_right_each_api_says_so_and_with_it_works(guarded: Cluster) -> None:
    ann, boss = guarded.client_properties("ann"), AdminClient(guarded.client_properties("boss"))
    assert {e.code() for e in produce(ann, "t", [b"x"])} == {KafkaError.TOPIC_AUTHORIZATION_FAILED}

    def binding(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
        return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ann", "*", operation, AclPermissionType.ALLOW)

    write = binding(ResourceType.TOPIC, "t", AclOperation.WRITE)
    for future in boss.create_acls([write, binding(ResourceType.TOPIC, "t", AclOperation.READ)]).values():
        future.result(30)
    assert produce(ann, "t", [b"x"]) == []
    consumer = Consumer({**ann, "group.id": "mine", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    message = consumer.poll(30)
    assert message is not None
    assert message.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()
    assert consume(guarded.client_properties("boss"), "t", 0, 1) == [b"x"]

    mine = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, "User:ann", None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert len(boss.describe_acls(mine).result(30)) == 2
    (deleted,) = [future.result(30) for future in boss.delete_acls([mine]).values()]
    assert len(deleted) == 2
    assert boss.describe_acls(mine).result(30) == []
    assert {e.code() for e in produce(ann, "t", [b"x"])} == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    with wire(guarded) as client:
        client.call(17, 1, {"mechanism": "PLAIN"})
        client.call(36, 2, {"auth_bytes": b"\0ann\0a"})
        everything = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
        everything |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
        denied = client.call(29, 3, everything)
        assert denied.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert denied.error_message == "Cluster authorization failed."


def test_an_idempotent_producer_needs_a_right_to_write(guarded: Cluster) -> None:
    producer = Producer({**guarded.client_properties("ann"), "enable.idempotence": "true", "message.timeout.ms": 5_000})
    failed: list[KafkaError] = []
    producer.produce("t", b"x", on_delivery=lambda error, message: failed.append(error))
    producer.flush(30)
    assert failed[0] is not None


def test_users_come_and_go_while_the_broker_runs(guarded: Cluster) -> None:
    boss = AdminClient(guarded.client_properties("boss"))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    (done,) = boss.alter_user_scram_credentials([UserScramCredentialUpsertion("eve", info, b"pw")]).values()
    done.result(30)
    found = boss.describe_user_scram_credentials(["eve"])["eve"].result(30)
    assert [(each.mechanism, each.iterations) for each in found.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_256, 8192)
    ]
    eve = {
        **guarded.client_properties("ann"),
        "sasl.username": "eve",
        "sasl.password": "pw",
        "sasl.mechanism": "SCRAM-SHA-256",
        "log_level": 0,
    }
    assert AdminClient(eve).list_topics(timeout=30).cluster_id == guarded.cluster_id
    (done,) = boss.alter_user_scram_credentials(
        [UserScramCredentialDeletion("eve", ScramMechanism.SCRAM_SHA_256)]
    ).values()
    done.result(30)
    with pytest.raises(KafkaException):
        AdminClient(eve).list_topics(timeout=0.7)
    with pytest.raises(KafkaException, match=r"UNACCEPTABLE_CREDENTIAL|Too few"):
        low = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 1000)
        (done,) = boss.alter_user_scram_credentials([UserScramCredentialUpsertion("eve", low, b"pw")]).values()
        done.result(30)


def test_users_and_entries_survive_a_restart(tmp_path) -> None:
    acls = [Acl("ann", "ALL", "TOPIC", "t")]
    with Cluster(users={"ann": "a"}, acls=acls, data=tmp_path) as running:
        running.create_topic("t")
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }
    with Cluster(listen="SASL_PLAINTEXT://127.0.0.1:0", config=settings, data=tmp_path) as running:
        properties = {
            "bootstrap.servers": running.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "ann",
            "sasl.password": "a",
        }
        assert produce(properties, "t", [b"x"]) == []


def test_a_cluster_says_what_is_missing() -> None:
    with pytest.raises(BrokerStartError, match="needs users"):
        Cluster(acls=[])
    with pytest.raises(BrokerStartError, match="must not be empty"):
        Cluster(users={"ann": ""})
    with Cluster(users={"ann": "a"}) as running:
        with pytest.raises(BrokerStartError, match="there is no user 'bob' in this Cluster; it has ann"):
            running.client_properties("bob")
        with pytest.raises(BrokerStartError, match="there is no mechanism 'GSSAPI'"):
            running.client_properties("ann", mechanism="GSSAPI")


def test_a_sasl_listener_without_a_mechanism_does_not_start() -> None:
    from streamactors.broker.config.setting import InvalidSetting

    with pytest.raises(InvalidSetting, match=r"sasl\.enabled\.mechanisms=SCRAM-SHA-512"):
        Cluster(listen="SASL_PLAINTEXT://127.0.0.1:0").start()


def test_no_secret_is_in_describe_configs(guarded: Cluster) -> None:
    from confluent_kafka.admin import ConfigResource

    boss = AdminClient(guarded.client_properties("boss"))
    (future,) = boss.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    entries = future.result(30)
    shown = " ".join(f"{entry.value} {entry.synonyms}" for entry in entries.values())
    assert "user_ann" not in shown
    assert entries["plain.sasl.jaas.config"].is_sensitive
