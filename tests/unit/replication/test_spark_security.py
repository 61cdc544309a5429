"""The preflight's line on who can read the tasks of a Spark session."""

from __future__ import annotations

from itertools import islice

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.replication.preflight.suite import each_check
from tests.support.pipelines.preflight import named

SECRET = {"spark.authenticate.secret": "s3cr3t"}
ON = {"spark.authenticate": "true"}
NETWORK = {"spark.network.crypto.enabled": "TRUE"}
DISK = {"spark.io.encryption.enabled": "true"}


def line(master: str, config: dict[str, str]) -> Check:
    cluster = {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:1"}}}
    pipeline = PipelineConfig.model_validate(
        {
            "name": "test",
            "source": cluster,
            "target": cluster,
            "spark": {"master": master, "config": config},
        }
    )
    # The first ones need no cluster.
    return named(list(islice(each_check(pipeline), 4)), "Spark security")


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4]", " local[2, 3]"])
def test_a_local_master_protects_itself(master: str) -> None:
    check = line(master, {"spark.authenticate": "false"})
    assert check.outcome is CheckOutcome.PASS


@pytest.mark.parametrize(
    ("master", "config"),
    [
        ("spark://a:7077", {}),
        ("spark://a:7077", SECRET),
        ("spark://a:7077", ON),
        ("spark://a:7077", {"spark.authenticate": "false", **SECRET, **NETWORK, **DISK}),
        ("local-cluster[2,1,1024]", {}),
        ("yarn", NETWORK | DISK),
    ],
)
def test_a_cluster_without_authentication(master: str, config: dict[str, str]) -> None:
    check = line(master, config)
    assert check.outcome is CheckOutcome.FAIL
    assert "spark.authenticate" in check.detail and "docs/spark-cluster.md" in check.hint
    assert "s3cr3t" not in check.detail + check.hint


@pytest.mark.parametrize(
    ("config", "off"),
    [
        ({}, "spark.network.crypto.enabled, spark.io.encryption.enabled are off"),
        (NETWORK, ": spark.io.encryption.enabled is off"),
        (DISK, ": spark.network.crypto.enabled is off"),
    ],
)
def test_a_cluster_without_encryption(config: dict[str, str], off: str) -> None:
    check = line("spark://a:7077", ON | SECRET | config)
    assert check.outcome is CheckOutcome.WARN and check.hint
    assert off in check.detail


@pytest.mark.parametrize(
    ("master", "config"),
    [
        ("spark://a:7077", ON | SECRET | NETWORK | DISK),
        ("spark://a:7077", ON | SECRET | DISK | {"spark.ssl.rpc.enabled": "true"}),
        ("spark://a:7077", ON | {"spark.authenticate.secret.file": "/etc/s"} | NETWORK | DISK),
        ("k8s://https://a", ON | NETWORK | DISK),
    ],
)
def test_a_cluster_with_both(master: str, config: dict[str, str]) -> None:
    assert line(master, config).outcome is CheckOutcome.PASS
