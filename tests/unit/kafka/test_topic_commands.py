"""The commands that messages give to operators."""

from __future__ import annotations

from pathlib import Path

from k2ktui.kafka.admin.topics import TopicSpec, alter_command, create_command, grow_command
from tests.unit.config.files import Files

_ADMIN = "target: {kafka: {admin: {bootstrap.servers: 'admin:9', security.protocol: SSL}}}"


def test_they_connect_as_the_admin_client_does(tmp_path: Path) -> None:
    cluster = Files(tmp_path).over_minimal(_ADMIN).config.target
    how = " --bootstrap-server admin:9 --command-config client.properties "
    assert how in create_command(cluster, TopicSpec("t", 1))
    assert how in grow_command(cluster, "t", 2)
    assert how in alter_command(cluster, "t", "retention.ms", "1")
