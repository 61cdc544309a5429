"""Schema registries on loopback keep address and schemas, and end with what started them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psutil
import pytest

from k2ktui.errors import Refused
from k2ktui.progress import Progress
from k2ktui.runtime.registry_node import RegistryNode
from tests.support.clusters.kafka import START_S, unique_name
from tests.support.clusters.registries import Registries, avro_record, call, register


class NoProgram(RegistryNode):
    """A registry whose program is missing: Java ends at once."""

    def _program(self, progress: Progress | None) -> Path:
        return self.data_dir


def test_registry_that_cannot_start_says_why(tmp_path: Path) -> None:
    registry = NoProgram("wrong", tmp_path)
    with pytest.raises(Refused, match="wrong registry ended while starting") as raised:
        registry.start()
    assert "quarkus-run.jar" in raised.value.unchanged
    assert not registry.running
    registry.close()


@pytest.mark.slow
def test_ids_of_the_two_registries_disagree(registries: Registries) -> None:
    subject, schema = unique_name("subject"), avro_record("Pair", "text")
    ids = [
        register(registry, subject, schema) for registry in (registries.source, registries.target)
    ]
    assert ids[0] != ids[1]
    for registry, number in zip((registries.source, registries.target), ids, strict=True):
        assert json.loads(call(registry, f"/schemas/ids/{number}")["schema"]) == json.loads(schema)


@pytest.mark.slow
def test_a_registry_that_was_killed_keeps_address_and_schemas(registries: Registries) -> None:
    registry = registries.target
    subject, schema = unique_name("subject"), avro_record("Kept", "text")
    number, url = register(registry, subject, schema), registry.url
    registry.kill()
    assert not registry.running
    registry.start(START_S)
    assert registry.url == url
    assert json.loads(call(registry, f"/schemas/ids/{number}")["schema"]) == json.loads(schema)


@pytest.mark.slow
def test_registries_listen_on_loopback_only(registries: Registries) -> None:
    connections = psutil.Process(registries.source.pid).net_connections()
    listening = {
        connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN
    }
    assert listening <= {"127.0.0.1", "::ffff:127.0.0.1"}
    assert listening


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="uses Linux process control")
def test_registries_have_a_supervisor(registries: Registries) -> None:
    """As brokers have: they end with what started them (``unit/runtime/test_reaper.py``)."""
    for registry in (registries.source, registries.target):
        supervisor = psutil.Process(registry.pid).parent()
        assert supervisor is not None and "_supervisor.py" in " ".join(supervisor.cmdline())
