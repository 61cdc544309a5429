"""The client reads and writes a real registry; logins, TLS and several addresses work."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.engine.schemas.model import Schema, SchemaReference, SchemaVersion, canonical_text
from k2ktui.errors import ConnectionFailed, LoginFailed
from k2ktui.registry.apicurio import find_global
from k2ktui.registry.client import RegistryClient, SchemaRejected
from k2ktui.registry.content import read_content, read_versions
from k2ktui.registry.settings import RegistrySettings, read_registry_settings
from tests.support.clusters.kafka import unique_name
from tests.support.clusters.registries import Registries, avro_record
from tests.support.clusters.registry_front import gate_before
from tests.support.clusters.tls import Holder, certificate_pem, make_leaf, make_root
from tests.support.http.rest import serving
from tests.unit.registry.test_settings import cluster

pytestmark = pytest.mark.slow
pytest.importorskip("authlib")


@pytest.fixture
def settings(registries: Registries) -> RegistrySettings:
    return RegistrySettings("source", (registries.source.url,))


@pytest.fixture
def client(settings: RegistrySettings) -> Iterator[RegistryClient]:
    with RegistryClient(settings) as made:
        yield made


def pay(*fields: str) -> Schema:
    return Schema("AVRO", avro_record("Pay", *fields))


def test_what_is_registered_is_read(client: RegistryClient) -> None:
    subject = f"{unique_name('pay')}/a b%"
    assert client.versions(subject) == () and client.find(subject, pay("a")) is None
    first = client.register(subject, pay("a"))
    assert client.register(subject, pay("a")) == first, "idempotent"
    second = client.register(subject, pay("a", "b"))
    assert client.versions(subject) == (1, 2) and subject in client.subjects()
    # The registry keeps one text for all subjects: that of the first.
    read, version = client.schema(second), client.version(subject, 2)
    assert read is not None and canonical_text(read) == canonical_text(pay("a", "b"))
    assert version == SchemaVersion(subject, 2, second, read)
    assert client.version(subject, 3) is None
    assert (subject, 1) in client.versions_of_id(first)
    found_version = client.find(subject, pay("a", "b"))
    assert found_version is not None and (found_version.id, found_version.version) == (second, 2)
    unknown = 2**31 - 1
    assert client.schema(unknown) is None and client.versions_of_id(unknown) == ()
    assert client.ids_of_guid("89791762-2336-4186-9674-299b90a802e2") == ()
    assert {"AVRO", "JSON", "PROTOBUF"} <= client.types()


def test_references_are_read_with_what_they_refer_to(client: RegistryClient) -> None:
    common, order = unique_name("common"), unique_name("order")
    client.register(common, pay("a"))
    client.register(common, pay("a", "b"))
    text = json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": "pay", "type": "Pay"}]}
    )
    schema = Schema("AVRO", text, (SchemaReference("Pay", common, 1),))
    client.register(order, schema)
    whole = read_content(client, [order])
    assert {name: len(subject.versions) for name, subject in whole.subjects.items()} == {
        common: 2,
        order: 1,
    }
    assert whole.subjects[order].versions[0].schema == schema
    only = read_versions(client, [(order, 1)])
    assert {name: len(subject.versions) for name, subject in only.subjects.items()} == {
        common: 1,
        order: 1,
    }
    assert read_content(client, [unique_name("none")]).subjects == {}


def test_the_level_of_a_subject_decides_what_is_accepted(client: RegistryClient) -> None:
    subject = unique_name("pay")
    client.register(subject, pay("a"))
    assert client.compatibility(unique_name("none")) == ""
    client.set_compatibility(subject, "FULL")
    assert client.compatibility(subject) == "FULL"
    other = Schema("AVRO", avro_record("Pay").replace("[]", '[{"name": "n", "type": "int"}]'))
    assert client.is_compatible(subject, pay("a", "c")) and not client.is_compatible(subject, other)
    with pytest.raises(
        SchemaRejected, match=f"refused to register a schema under subject {subject}"
    ):
        client.register(subject, other)
    with pytest.raises(SchemaRejected, match="the source's schema registry"):
        client.register(unique_name("bad"), Schema("AVRO", '{"type": "rec'))


def test_a_registry_that_ignores_a_chosen_id_is_noticed(client: RegistryClient) -> None:
    """Apicurio accepts it, and gives the schema another id."""
    wanted = SchemaVersion(unique_name("pay"), 5, 77_777, pay(unique_name("f").replace("-", "_")))
    assert client.import_version(wanted) != 77_777


def test_the_last_schemas_are_kept_in_memory(registries: Registries) -> None:
    """``cacheSize`` is how many."""
    with gate_before(registries.source.url) as gate:
        settings = RegistrySettings("source", (gate.url,), cache_size=1)
        with RegistryClient(settings) as client:
            ids = [client.register(unique_name("pay"), pay(f"f{n}")) for n in range(2)]
            gate.asked.clear()
            for schema_id in (ids[0], ids[0], ids[1], ids[1], ids[0]):
                assert client.schema(schema_id) is not None
    assert len(gate.asked) == 3


def test_the_next_address_is_used_when_one_fails(settings: RegistrySettings) -> None:
    two = replace(settings, urls=("http://127.0.0.1:1", *settings.urls), max_retries=0)
    with RegistryClient(two) as client:
        assert client.default_mode()


def test_logins_and_headers_reach_the_registry(registries: Registries) -> None:
    basic = base64.b64encode(b"me:hunter2").decode()
    with gate_before(registries.source.url) as gate:
        gate.needed = {"authorization": f"Basic {basic}", "x-team": "pay"}
        right = cluster(gate.url, basic__auth__user__info="me:hunter2")
        with RegistryClient(read_registry_settings(right, "source")) as client:
            assert client.default_mode()
        wrong = cluster(gate.url, basic__auth__user__info="me:hunter3")
        with (
            RegistryClient(read_registry_settings(wrong, "target")) as client,
            pytest.raises(
                LoginFailed, match="does not allow this login to read the mode"
            ) as raised,
        ):
            client.default_mode()
        assert "hunter3" not in str(raised.value) and "target.registry.config" in str(raised.value)
        gate.needed = {"authorization": "Bearer hunter2"}
        token = cluster(gate.url, bearer__auth__token="hunter2")
        with RegistryClient(read_registry_settings(token, "source")) as client:
            assert client.default_mode()


def test_a_token_is_fetched_from_the_issuer(registries: Registries) -> None:
    with serving() as issuer, gate_before(registries.source.url) as gate:
        issuer.answers["POST /token"] = [
            (200, b'{"access_token": "hunter2", "token_type": "Bearer", "expires_in": 300}')
        ]
        gate.needed = {"authorization": "Bearer hunter2"}
        oauth = {
            "bearer__auth__credentials__source": "OAUTHBEARER",
            "bearer__auth__issuer__endpoint__url": f"{issuer.url}/token",
            "bearer__auth__client__id": "me",
            "bearer__auth__client__secret": "secret",
            "bearer__auth__scope": "all",
        }
        with RegistryClient(read_registry_settings(cluster(gate.url, **oauth), "source")) as client:
            assert client.default_mode()


def server_context(root: Holder, directory: Path) -> ssl.SSLContext:
    """TLS for localhost that asks for a client certificate."""
    trusted = directory / "root.pem"
    trusted.write_text(certificate_pem(root.certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(make_leaf(root, "server", "localhost").pem_file(directory / "s.pem"))
    context.load_verify_locations(trusted)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_mutual_tls(registries: Registries, tmp_path: Path) -> None:
    root = make_root()
    stores = {
        "ssl__truststore__location": str(tmp_path / "root.pem"),
        "ssl__keystore__location": str(make_leaf(root, "me").pem_file(tmp_path / "me.pem")),
    }
    with gate_before(registries.source.url, server_context(root, tmp_path)) as gate:
        with RegistryClient(
            read_registry_settings(cluster(gate.url, **stores), "source")
        ) as client:
            assert client.default_mode()
        other = gate.url.replace("localhost", "127.0.0.1")
        configured = cluster(other, **stores, max__retries="0")
        with (
            RegistryClient(read_registry_settings(configured, "source")) as client,
            pytest.raises(ConnectionFailed, match="certificate"),
        ):
            client.default_mode()
        stores["ssl__endpoint__identification__algorithm"] = ""
        with RegistryClient(read_registry_settings(cluster(other, **stores), "source")) as client:
            assert client.default_mode()
        del stores["ssl__keystore__location"]
        alone = cluster(gate.url, **stores, max__retries="0")
        with (
            RegistryClient(read_registry_settings(alone, "source")) as client,
            pytest.raises(ConnectionFailed, match="cannot be reached"),
        ):
            client.default_mode()


def test_a_registry_that_is_away_is_an_error_for_operators() -> None:
    away = RegistrySettings("target", ("http://127.0.0.1:1",), max_retries=0)
    with (
        RegistryClient(away) as client,
        pytest.raises(ConnectionFailed, match="cannot be reached to list subjects") as raised,
    ):
        client.subjects()
    assert raised.value.unchanged and "target.registry.config" in raised.value.hint


def test_an_answer_that_no_registry_gives_is_an_error_for_operators() -> None:
    with serving() as server:
        server.answers["GET /mode"] = [(200, b"<html>hello</html>")]
        server.answers["GET /schemas/ids/1"] = [(200, b"[]")]
        server.answers["GET /schemas/types"] = [(200, b"1")]
        body = b'{"id": 1, "version": 1, "schema": {}}'
        server.answers["GET /subjects/pay/versions/1?deleted=true"] = [(200, body)]
        rows = b'{"versions": [{}]}'
        server.answers["GET /apis/registry/v3/search/versions?globalId=1"] = [(200, rows)]
        own = RegistrySettings("source", (f"{server.url}/apis/ccompat/v7",), max_retries=0)
        with RegistryClient(RegistrySettings("source", (server.url,), max_retries=0)) as client:
            for ask in (
                client.default_mode,
                lambda: client.schema(1),
                client.types,
                lambda: client.version("pay", 1),
                lambda: find_global(own, 1),
            ):
                with pytest.raises(ConnectionFailed, match="not from a schema registry"):
                    ask()


def test_credentials_that_a_server_repeats_are_not_shown() -> None:
    with serving() as server:
        body = b'{"error_code": 500, "message": "no user me with hunter2 and team tulip"}'
        server.answers["GET /mode"] = [(400, body)]
        given = cluster(server.url, basic__auth__user__info="me:hunter2")
        settings = replace(read_registry_settings(given, "source"), headers={"x-team": "tulip"})
        with RegistryClient(settings) as client, pytest.raises(ConnectionFailed) as raised:
            client.default_mode()
    assert "no user me with *** and team ***" in raised.value.message


@pytest.mark.parametrize(
    ("path", "subjects"),
    [("", ("pay-value",)), ("/contexts/.eu", ("order-value", "pay-value"))],
    ids=["default", "eu"],
)
def test_subjects_of_other_contexts_are_left_out(path: str, subjects: tuple[str, ...]) -> None:
    """As Confluent's registry names them; no other registry has contexts."""
    listed = json.dumps(["pay-value", ":.eu:order-value", ":.us:order-value"]).encode()
    with serving() as server:
        query = "deleted=false&deleted_only=false&offset=0&limit=-1"
        server.answers[f"GET {path}/subjects?{query}"] = [(200, listed)]
        with RegistryClient(RegistrySettings("source", (f"{server.url}{path}",))) as client:
            assert client.subjects() == subjects
