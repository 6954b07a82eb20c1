"""TLS of a listener: certificates that are renewed, that are missing, that are of the wrong kind; names of principals."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from streamactors.broker.cluster.cluster_credentials import make_certificates
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.security.principal_mapping import PrincipalMapping
from streamactors.broker.security.tls import Tls, TlsSettings, distinguished_name, make_context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.mark.expects_log("keeps the certificates that it has")
def test_new_files_are_used_for_new_connections_and_bad_ones_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_certificates(tmp_path / "one")
    now = [0.0]
    tls = Tls(TlsSettings(keystore_location=str(folder / "server.pem")), lambda: now[0])
    first = tls.context()
    assert tls.context() is first
    other = make_certificates(tmp_path / "two")
    (folder / "server.pem").write_bytes((other / "server.pem").read_bytes() + b"\n")
    assert tls.context() is first, "it looks at the files once a second"
    now[0] = 1.0
    second = tls.context()
    assert second is not first
    (folder / "server.pem").write_text("nothing")
    now[0] = 2.0
    assert tls.context() is second
    assert "keeps the certificates that it has" in caplog.text
    os.unlink(folder / "server.pem")
    now[0] = 3.0
    assert tls.context() is second


def test_the_certificate_in_the_settings_themselves(certificates: Path) -> None:
    text = (certificates / "server.pem").read_text()
    context = make_context(TlsSettings(keystore_certificate_chain=text, keystore_key=text))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_COMPRESSION, "compressed secrets can be guessed by their length (CRIME)"
    assert context.options & ssl.OP_NO_RENEGOTIATION, "a client must not make the broker sign again and again"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (TlsSettings(), "ssl.keystore.location=FILE.pem"),
        (TlsSettings(keystore_location="/no/such/file"), "ssl.keystore.location: cannot read it"),
        (TlsSettings(keystore_location="{ca}"), "the file holds the private key and the chain"),
        (TlsSettings(keystore_location="{jks}"), "a Java key store of the old form"),
        (TlsSettings(keystore_location="{good}", enabled_protocols=("TLSv1",)), "this broker has TLSv1.2 and TLSv1.3"),
        (TlsSettings(keystore_location="{good}", client_auth="required"), "ssl.truststore.location=FILE.pem"),
        (
            TlsSettings(keystore_location="{good}", client_auth="required", truststore_location="/no/such"),
            "ssl.truststore.location=/no/such: cannot read it",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_named(
    certificates: Path, tmp_path: Path, settings: TlsSettings, complaint: str
) -> None:
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0")
    places = {
        "{ca}": str(certificates / "ca.pem"),
        "{good}": str(certificates / "server.pem"),
        "{jks}": str(tmp_path / "store.jks"),
    }
    location = settings.keystore_location
    with pytest.raises(InvalidSetting, match=complaint):
        make_context(settings._replace(keystore_location=places.get(location or "", location)))


def test_the_subject_of_a_certificate_as_rfc_2253_writes_it() -> None:
    subject = ((("countryName", "DE"),), (("organizationName", "A, B"),), (("commonName", "ann"),))
    assert distinguished_name({"subject": subject}) == "CN=ann,O=A\\, B,C=DE"
    assert distinguished_name({}) is None


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=ann,OU=x", "CN=ann,OU=x"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=svc,OU=ServiceUsers,O=U", "svc"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=ann,OU=Other", "CN=ann,OU=Other"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L", "CN=Adm,OU=Sre,O=U", "adm@sre"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "CN=adminUser,OU=x", "ADMINUSER"),
    ],
)
def test_mapping_rules_as_in_kafkas_documentation(rules: str, subject: str, name: str) -> None:
    assert PrincipalMapping(rules).name(subject) == name


@pytest.mark.parametrize("rules", ["RULE:", "RULE:(/x/", "NONSENSE", "RULE:a/b/X"])
def test_rules_that_are_none_are_refused(rules: str) -> None:
    with pytest.raises(InvalidSetting, match="RULE:pattern/replacement/"):
        PrincipalMapping(rules)


def test_a_subject_that_no_rule_matches_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="no rule matches CN=x"):
        PrincipalMapping("RULE:^CN=ann$/ann/").name("CN=x")


def test_a_broker_without_doors_loads_no_openssl() -> None:
    program = (
        "import sys\nfrom streamactors.broker import Cluster\n"
        "with Cluster() as cluster:\n    print(sorted({'ssl', 'secrets', '_hashlib'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
