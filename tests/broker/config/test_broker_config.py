"""A broker's configuration: names, layers, what is refused and what is only warned about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import streamactors.broker
from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.group_settings import GroupConfigSettings
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.config.topic_settings import BROKER_SYNONYMS
from streamactors.broker.config.unsupported import WITHOUT_EFFECT, why_refused


def test_attributes_are_kafkas_names_with_underscores() -> None:
    config = BrokerConfig.of({"num.partitions": 4, "auto.create.topics.enable": False, "log.retention.hours": "24"})
    assert (config.num_partitions, config.auto_create_topics_enable, config.log_retention_hours) == (4, False, 24)
    assert config.log_retention_ms is None
    assert config.message_max_bytes == 1_048_588


def test_every_default_passes_its_own_check() -> None:
    for name, setting in BrokerConfig.declared().items():
        text = setting.format(setting.default)
        if text is not None:
            assert setting.parse(text) == setting.default, name


def test_every_setting_has_a_documentation_string() -> None:
    assert [name for name, setting in BrokerConfig.declared().items() if len(setting.doc) < 20] == []


def test_every_setting_is_honoured_by_someone() -> None:
    broker = Path(streamactors.broker.__file__).parent
    declares = {
        file for file in broker.rglob("*_settings.py") if file.name != "group_settings.py"
    }  # which reads the broker's limits
    files = [file for file in broker.rglob("*.py") if file not in declares]
    code = "".join(file.read_text() for file in files)
    # the settings that a listener may have of its own are read by their text
    read = set(re.findall(r"\w+", code)) | {
        name.replace(".", "_") for name in re.findall(r'"((?:ssl|sasl|plain|connections)\.[a-z.]+)"', code)
    }
    read |= {"ssl_keystore_type", "ssl_truststore_type"}  # their names are put together
    # those of groups, too: the broker's default, and its limits
    of_groups = [name.replace(".", "_").partition("_") for name in GroupConfigSettings.declared()]
    read |= {f"group_{kind}_{bound}{rest}" for kind, _, rest in of_groups for bound in ("", "min_", "max_")}
    fallbacks = {synonym.name for synonyms in BROKER_SYNONYMS.values() for synonym in synonyms}
    bound = {name for name, setting in BrokerConfig.declared().items() if setting.check.limits.startswith("only ")}
    unread = {name for name in BrokerConfig.declared() if name.replace(".", "_") not in read}
    assert unread - fallbacks - bound == set()


def test_an_unknown_setting_is_kept_without_effect_and_the_nearest_one_named() -> None:
    config = BrokerConfig.of({"num.partition": 4, "zz": 1, "num.partitions": 3})
    assert config.without_effect == {
        "num.partition": "no such setting; did you mean num.partitions?",
        "zz": "no such setting; streamactors docs broker-reference lists them all",
    }
    assert config.num_partitions == 3


def test_a_setting_of_kafka_without_effect_is_accepted_with_the_reason() -> None:
    config = BrokerConfig.of({"num.io.threads": 8})
    assert config.without_effect == {"num.io.threads": "this broker has no such threads or queues"}
    config = BrokerConfig.of({"sasl.kerberos.min.time.before.relogin": 58_000})
    assert config.without_effect == {
        "sasl.kerberos.min.time.before.relogin": "there is no Kerberos, so no ticket is renewed"
    }


@pytest.mark.parametrize(
    "name", ["ssl.engine.factory.class", "sasl.kerberos.service.name", "authorizer.class.name", "zookeeper.connect"]
)
def test_a_setting_of_a_missing_security_feature_is_refused(name: str) -> None:
    with pytest.raises(InvalidSetting, match=name):
        BrokerConfig.of({name: "x"})


def test_no_setting_is_both_supported_and_refused() -> None:
    assert not BrokerConfig.declared().keys() & WITHOUT_EFFECT.keys()
    assert [name for name in BrokerConfig.declared() if why_refused(name)] == []


def test_dynamic_settings_lie_over_static_ones_and_a_brokers_own_over_the_clusters() -> None:
    config = BrokerConfig.of({"log.retention.ms": 1, "message.max.bytes": 10})
    changed = config.with_dynamic({"log.retention.ms": "2", "message.max.bytes": "20"}, {"log.retention.ms": "3"})
    assert (changed.log_retention_ms, changed.message_max_bytes) == (3, 20)
    assert config.log_retention_ms == 1
    assert changed.with_dynamic({}, {}).log_retention_ms == 1


def test_kafkas_own_kraft_properties_start() -> None:
    stock = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:9093",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "inter.broker.listener.name": "PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://localhost:9092",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "num.network.threads": "3",
        "num.io.threads": "8",
        "socket.send.buffer.bytes": "102400",
        "log.dirs": "/tmp/kraft-combined-logs",
        "num.partitions": "1",
        "num.recovery.threads.per.data.dir": "1",
        "offsets.topic.replication.factor": "1",
        "log.retention.hours": "168",
        "log.segment.bytes": "1073741824",
        "log.retention.check.interval.ms": "300000",
    }
    config = BrokerConfig.of(stock)
    assert config.data_folder == "/tmp/kraft-combined-logs"
    assert set(config.without_effect) == {
        "num.network.threads",
        "num.io.threads",
        "num.recovery.threads.per.data.dir",
    }


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"broker.id": 2, "node.id": 3}, "broker.id=2: node.id is 3"),
        ({"process.roles": "controller"}, "name the controllers, at least this one"),
        ({"node.id": 3, "controller.quorum.voters": "1@a:1,2@b:1"}, "is not among them"),
        ({"controller.quorum.voters": "7@a:1"}, "is not among them"),
        ({"controller.quorum.voters": "1@a:1,1@b:1"}, "controller 1 is named twice"),
        ({"controller.quorum.voters": "1@a:1,2-b:1"}, "id@host:port"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidSetting, match=complaint):
        BrokerConfig.of(settings)  # type: ignore[arg-type]


def test_the_old_name_of_the_node_id_counts_where_the_new_one_is_missing() -> None:
    assert BrokerConfig.of({"broker.id": 7}).effective_node_id == 7
    assert BrokerConfig.of({"node.id": 3}).effective_node_id == 3
    assert BrokerConfig.of({}).effective_node_id == 1
