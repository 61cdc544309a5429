from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from k2ktui.kafka.auth import security
from k2ktui.kafka.auth.stores import Identity, read_identity, read_trust
from k2ktui.kafka.unusable_property import UnusableProperty
from k2ktui.runtime.java import find_java
from tests.support.clusters.tls import (
    Holder,
    as_der,
    certificate_pem,
    make_intermediate,
    make_leaf,
    make_root,
    trust_pkcs12,
)

PASSWORD = "changeit"


@pytest.fixture(scope="module")
def root() -> Holder:
    return make_root()


@pytest.fixture(scope="module")
def client(root: Holder) -> Holder:
    return make_leaf(make_intermediate(root), "client")


@pytest.mark.parametrize("spell", [str, lambda pem: pem.replace("\n", " "), repr])
def test_inline_trust_in_every_spelling(root: Holder, spell: object) -> None:
    pem = certificate_pem(root.certificate)
    text = spell(pem * 2)  # type: ignore[operator]
    trusted = read_trust({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": text})
    assert as_der(trusted) == as_der(pem) * 2


def test_trust_files(root: Holder, tmp_path: Path) -> None:
    pem = tmp_path / "trust.pem"
    pem.write_text("a comment\n" + certificate_pem(root.certificate))
    p12 = trust_pkcs12(root.certificate, tmp_path / "trust.p12", PASSWORD)
    by_pem = read_trust({"ssl.truststore.location": str(pem)})
    by_p12 = read_trust(
        # A wrong type is common, and harmless: the content says what it is.
        {
            "ssl.truststore.type": "JKS",
            "ssl.truststore.location": str(p12),
            "ssl.truststore.password": PASSWORD,
        }
    )
    assert as_der(by_pem) == as_der(by_p12) == as_der(certificate_pem(root.certificate))


def test_no_trust_store_means_the_systems() -> None:
    assert read_trust({}) == ""


def test_identities(client: Holder, tmp_path: Path) -> None:
    p12 = client.pkcs12(tmp_path / "me.p12", PASSWORD)
    pem = client.pem_file(tmp_path / "me.pem")
    stores = [
        {"ssl.keystore.location": str(p12), "ssl.keystore.password": PASSWORD},
        {"ssl.keystore.location": str(pem), "ssl.keystore.type": "PEM"},
        {
            "ssl.keystore.certificate.chain": client.certificates_pem,
            "ssl.keystore.key": client.key_pem(PASSWORD),
            "ssl.key.password": PASSWORD,
        },
    ]
    for store in stores:
        identity = read_identity(store)
        assert identity is not None
        assert len(as_der(identity.certificates)) == 2
        assert as_der(identity.certificates) == as_der(client.certificates_pem)
        assert identity.key == client.key_pem()
        assert "PRIVATE" not in repr(identity)


def test_no_key_store_means_no_identity() -> None:
    assert read_identity({"ssl.keystore.type": "PEM"}) is None


@pytest.mark.parametrize(
    ("properties", "key", "reason"),
    [
        ({"ssl.truststore.location": "{none}"}, "ssl.truststore.location", "No such file"),
        (
            {"ssl.truststore.location": "{p12}", "ssl.truststore.password": "hunter2"},
            "ssl.truststore.location",
            "ssl.truststore.password is wrong",
        ),
        (
            {"ssl.truststore.location": "{junk}"},
            "ssl.truststore.location",
            "not a PEM, PKCS#12 or JKS",
        ),
        ({"ssl.truststore.certificates": "hunter2"}, "ssl.truststore.certificates", "no PEM"),
    ],
)
def test_unusable_trust(
    root: Holder, tmp_path: Path, properties: dict[str, str], key: str, reason: str
) -> None:
    places = {
        "none": tmp_path / "none",
        "p12": trust_pkcs12(root.certificate, tmp_path / "trust.p12", PASSWORD),
        "junk": tmp_path / "junk",
    }
    places["junk"].write_bytes(b"hunter2")
    with pytest.raises(UnusableProperty, match=reason) as caught:
        read_trust({name: text.format(**places) for name, text in properties.items()})
    assert caught.value.key == key
    assert "hunter2" not in str(caught.value)


def test_unusable_identities(root: Holder, client: Holder, tmp_path: Path) -> None:
    other = make_leaf(root, "other")
    chain = {"ssl.keystore.certificate.chain": client.certificates_pem}
    trust = trust_pkcs12(root.certificate, tmp_path / "trust.p12", PASSWORD)
    cases = [
        (chain | {"ssl.keystore.key": other.key_pem()}, "does not belong"),
        (chain | {"ssl.keystore.key": client.key_pem("x")}, "missing; the private key"),
        (
            chain | {"ssl.keystore.key": client.key_pem("x"), "ssl.key.password": "hunter2"},
            "ssl.key.password is wrong",
        ),
        (chain | {"ssl.keystore.key": "hunter2"}, "no PEM private key"),
        ({"ssl.keystore.key": client.key_pem()}, "no PEM certificate"),
        (
            {"ssl.keystore.location": str(trust), "ssl.keystore.password": PASSWORD},
            "contains no private key",
        ),
    ]
    for properties, reason in cases:
        with pytest.raises(UnusableProperty, match=reason) as caught:
            read_identity(properties)
        assert "hunter2" not in str(caught.value)


def test_a_store_of_javas_keytool(root: Holder, tmp_path: Path) -> None:
    keytool = _keytool()
    pem, store = tmp_path / "root.pem", tmp_path / "trust.p12"
    pem.write_text(certificate_pem(root.certificate))
    command = [keytool, "-importcert", "-noprompt", "-alias", "root", "-file", str(pem)]
    command += ["-keystore", str(store), "-storetype", "PKCS12", "-storepass", PASSWORD]
    subprocess.run(command, check=True, capture_output=True)
    trusted = read_trust(
        {"ssl.truststore.location": str(store), "ssl.truststore.password": PASSWORD}
    )
    assert as_der(trusted) == as_der(pem.read_text())


def _keytool() -> str:
    keytool = find_java().home / "bin" / "keytool"
    if not keytool.exists():
        pytest.skip("this Java has no keytool")
    return str(keytool)


def test_the_key_is_private_while_python_loads_it(
    client: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python loads it from a file only; others cannot read that file, whatever the umask."""
    seen: list[tuple[int, int, Path]] = []

    class Context(security.PortableContext):
        def load_cert_chain(self, path: Path) -> None:  # type: ignore[override]
            modes = (path.stat().st_mode, path.parent.stat().st_mode)
            seen.append((stat.S_IMODE(modes[0]), stat.S_IMODE(modes[1]), path))
            super().load_cert_chain(path)

    monkeypatch.setattr(security, "PortableContext", Context)
    identity = Identity(client.certificates_pem, client.key_pem())
    before = os.umask(0)
    try:
        security.ssl_context(security.Tls("", identity, verify_name=True))
    finally:
        os.umask(before)
    ((file_mode, directory_mode, path),) = seen
    assert (file_mode, directory_mode) == (0o600, 0o700)
    assert not path.parent.exists()
