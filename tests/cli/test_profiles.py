"""Profiles of clusters: streamactors.toml, and which of its clusters a command uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors.broker import Acl, Cluster
from streamactors.broker.cluster.reserved_ports import free_port
from streamactors.cli import bootstrap as client
from streamactors.cli.profiles.profile_file import ProfileError, Secret, read_profiles
from tests.cli.ran import Run


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "streamactors.toml"


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address where no broker is."""
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_MS", 300)
    return f"127.0.0.1:{free_port()}"


def test_what_is_nearer_chooses_the_cluster(
    streamactors: Run, broker: Cluster, file: Path, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = broker.bootstrap_servers
    file.write_text(
        f'default = "here"\n[profiles.here]\nbootstrap = "{here}"\n[profiles.gone]\nbootstrap = "{nobody}"\n'
    )

    def reaches_the_broker(*arguments: str) -> bool:
        return streamactors("topics", "list", *arguments).code == 0

    monkeypatch.delenv("STREAMACTORS_BOOTSTRAP")
    assert reaches_the_broker()
    assert not reaches_the_broker("--profile", "gone")
    assert reaches_the_broker("--profile", "gone", "--bootstrap", here)
    monkeypatch.setenv("STREAMACTORS_PROFILE", "gone")
    assert not reaches_the_broker()
    assert reaches_the_broker("--profile", "here")
    assert reaches_the_broker("-b", here)
    monkeypatch.setenv("STREAMACTORS_BOOTSTRAP", here)
    assert not reaches_the_broker()  # a profile that is named wins
    monkeypatch.delenv("STREAMACTORS_PROFILE")
    monkeypatch.setenv("STREAMACTORS_BOOTSTRAP", nobody)
    assert not reaches_the_broker()


SECURED = """
[profiles.safe]
bootstrap = "{servers}"
[profiles.safe.properties]
security.protocol = "SASL_SSL"
sasl.mechanism = "SCRAM-SHA-256"
sasl.username = "ann"
sasl.password = {secret}
ssl.ca.location = "{authority}"
"""


def test_secrets_come_from_a_file_or_the_environment(
    streamactors: Run, file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Cluster(users={"ann": "a secret"}, tls=True, acls=[Acl("ann", "ALL", "TOPIC", "*")]) as secured:
        place = {"servers": secured.bootstrap_servers, "authority": secured.client_properties("ann")["ssl.ca.location"]}
        listing = ("topics", "list", "--profile", "safe")
        file.write_text(SECURED.format(**place, secret='{ file = "ann.secret" }'))
        missing = streamactors(*listing)
        assert (missing.code, missing.err.count("\n")) == (2, 1)
        assert f"{file}: profiles.safe.properties.sasl.password: cannot read {tmp_path / 'ann.secret'}" in missing.err
        (tmp_path / "ann.secret").write_text("a secret\n")
        assert streamactors(*listing).code == 0
        assert streamactors(*listing, "-X", "sasl.password=wrong").code == 1
        file.write_text(SECURED.format(**place, secret='{ env = "OF_ANN" }'))
        assert "the environment has no OF_ANN; export it" in streamactors(*listing).err
        monkeypatch.setenv("OF_ANN", "a secret")
        assert streamactors(*listing).code == 0
        file.write_text(SECURED.format(**place, secret='"a secret"'))
        file.chmod(0o644)
        warned = streamactors(*listing)
        assert (warned.code, warned.err) == (
            0,
            f"streamactors: other users may read sasl.password in {file}; chmod 600 it, or give {{ file = … }} or {{ env = … }}\n",
        )
        file.chmod(0o600)
        assert streamactors(*listing).err == ""
        (tmp_path / "ann.properties").write_text(
            f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\nssl.truststore.location={place['authority']}\n"
            'sasl.jaas.config=org.apache.kafka.ScramLoginModule required username="ann" password="a secret";\n'
        )
        file.write_text(f'[profiles.safe]\nbootstrap = "{place["servers"]}"\nconfig = "ann.properties"\n')
        assert streamactors(*listing).code == 0


def test_the_default_sends_no_secrets_to_other_brokers(
    streamactors: Run, file: Path, nobody: str, broker: Cluster
) -> None:
    file.write_text(
        f'default = "far"\n[profiles.far]\nbootstrap = "{nobody}"\n[profiles.far.properties]\n'
        'security.protocol = "SASL_PLAINTEXT"\nsasl.mechanism = "PLAIN"\nsasl.username = "u"\nsasl.password = { env = "NONE" }\n'
    )
    for address in (("-b", broker.bootstrap_servers), ()):  # the second by STREAMACTORS_BOOTSTRAP
        assert streamactors("topics", "list", *address).code == 0


def test_profiles_are_listed_without_their_secrets(streamactors: Run, file: Path) -> None:
    empty = streamactors("profiles")
    assert (empty.code, empty.out) == (
        0,
        f"no profiles in {file}; streamactors profiles --help shows what it may hold\n",
    )
    file.write_text(
        'default = "a"\n[profiles.a]\nbootstrap = "a:1"\n[profiles.b]\nbootstrap = "b:1"\nregistry = "http://r"\n'
        '[profiles.b.properties]\nsasl.password = "hush"\nssl.key.password = { file = "x" }\nlinger.ms = 5\n'
        "enable.ssl.certificate.verification = true\n"
    )
    shown = streamactors("profiles")
    assert shown.code == 0
    assert "hush" not in shown.out
    assert shown.rows[0] == ["a", "(default)", "a:1"]
    assert "ssl.key.password = { file = 'x' }" in shown.out
    one, two = streamactors("profiles", "--json").json
    assert (one["profile"], one["default"], two["default"], two["registry"]) == ("a", True, False, "http://r")
    assert two["properties"] == {
        "sasl.password": "[hidden]",
        "ssl.key.password": "{ file = 'x' }",
        "linger.ms": "5",
        "enable.ssl.certificate.verification": "true",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("default =", "is not TOML"),
        ("profile = {}", "profile: this file has no such key; did you mean profiles?"),
        ("colours = true", "colours: this file has no such key; it has default, profiles"),
        ("profiles = 3", "profiles: it is no table; write [profiles.NAME]"),
        ("[profiles]\na = 3", "profiles.a: it is no table; write [profiles.a]"),
        ("[profiles.a]", 'profiles.a.bootstrap: it is missing; write bootstrap = "broker'),
        ('[profiles.a]\nbootstrap = "x"', "profiles.a.bootstrap: 'x' has no port"),
        ("[profiles.a]\nbootstrap = 9092", "profiles.a.bootstrap: 9092 is no string"),
        ('[profiles.a]\nbootstrp = "x:1"', "profiles.a.bootstrp: a profile has no such key; did you mean bootstrap?"),
        ('default = "b"\n[profiles.a]\nbootstrap = "x:1"', "default: there is no profile 'b'; it has a"),
        (
            '[profiles.a]\nbootstrap = "x:1"\n[profiles.a.properties]\nsasl.pasword = "x"',
            "profiles.a.properties.sasl.pasword: there is no client property 'sasl.pasword'; did you mean sasl.password?",
        ),
        (
            '[profiles.a]\nbootstrap = "x:1"\n[profiles.a.properties]\nsasl.password = ["x"]',
            "sasl.password: ['x'] is no value of a property",
        ),
        ('[profiles.a]\nbootstrap = "x:1"\nproperties = 3', "profiles.a.properties: it is no table"),
        (
            '[profiles.a]\nbootstrap = "x:1"\n[profiles.a.properties]\nsasl.password = { env = 3 }',
            "sasl.password: env is no name",
        ),
    ],
)
def test_a_wrong_key_is_named_with_its_file_and_the_way_out(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(ProfileError) as error:
        read_profiles()
    assert str(error.value).startswith(str(file))
    assert said in str(error.value)


def test_an_unknown_profile_is_an_error(streamactors: Run, file: Path) -> None:
    ran = streamactors("topics", "list", "--profile", "prod")
    assert (ran.code, ran.err) == (
        2,
        f"streamactors: there is no profile 'prod': {file} does not exist; see: streamactors profiles --help\n",
    )
    file.write_text('[profiles.production]\nbootstrap = "x:1"\n')
    assert f"{file} has no profile 'productoin'; did you mean production?" in (
        streamactors("topics", "list", "--profile", "productoin").err
    )


def test_names_of_properties_may_be_quoted(file: Path) -> None:
    file.write_text(
        '[profiles.a]\nbootstrap = "x:1"\n[profiles.a.properties]\n"linger.ms" = 5\nsasl = { username = "u", password = { env = "E" } }\n'
    )
    assert read_profiles().profiles["a"].properties == {
        "linger.ms": "5",
        "sasl.username": "u",
        "sasl.password": Secret("env", "E"),
    }
