"""One session of Spark in the test's own process, for transforms without a pipeline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from k2ktui.config.load import load
from k2ktui.config.model import SparkSettings
from k2ktui.replication.spark.session import SparkRuntime
from k2ktui.replication.transforms.schemas import TransformSchemas

_FILE = """\
name: p
source: {kafka: {common: {bootstrap.servers: "s:1"}}}
target: {kafka: {common: {bootstrap.servers: "t:1"}}}
replication: [{source: {topic: ".*"}}, {sink: {topic: source}}]
"""


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRuntime]:
    """A session that the modules of the group ``session`` share."""
    file = tmp_path_factory.mktemp("session") / "p.yaml"
    file.write_text(_FILE)
    schemas = TransformSchemas(load([file]).config)
    settings = SparkSettings(master="local[1]")
    runtime = SparkRuntime(settings, "transforms", {}, {}, transforms=True, schemas=schemas)
    runtime.start()
    yield runtime
    runtime.stop()
