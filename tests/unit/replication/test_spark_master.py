"""Masters that Spark cannot use or reach: said in one sentence, before Spark tries for a minute."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from k2ktui.config.model import SparkSettings
from k2ktui.errors import ConfigError, ConnectionFailed, ExitCode
from k2ktui.replication.spark import master as spark_master
from k2ktui.replication.spark.executors import java_reason
from k2ktui.replication.spark.master import require_master
from tests.support.commands.cli import k2ktui

CLOSED = "127.0.0.1:1"


def settings(master: str, **config: str) -> SparkSettings:
    return SparkSettings(master=master, config={k.replace("_", "."): v for k, v in config.items()})


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2, 3]", "local-cluster[2,1,512]"])
def test_masters_without_an_address(master: str) -> None:
    assert require_master(settings(master), {}) == ()


@pytest.mark.parametrize(
    ("master", "words"),
    [
        ("mesos://10.0.0.1:5050", "spark.master is mesos://10.0.0.1:5050: Spark has no Mesos"),
        ("mesos", "Spark has no Mesos since version 4"),
        ("spark-1:7077", "spark.master is spark-1:7077: Spark knows no such master"),
        ("spark://", "Spark knows no such master"),
        ("k8s://https://host:port", "Spark knows no such master"),
        ("yarn-client", "Spark knows no such master"),
        ("yarn", "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"),
    ],
)
def test_masters_that_spark_does_not_know(master: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        require_master(settings(master), {})
    assert "docs/spark-cluster.md" in caught.value.hint


def test_one_of_several_masters_is_enough(listening: str) -> None:
    assert require_master(settings(f"spark://{CLOSED},{listening}"), {}) == (CLOSED, listening)
    for scheme in ("", "http://", "https://"):
        assert require_master(settings(f"k8s://{scheme}{listening}"), {}) == (listening,)


@pytest.mark.parametrize("master", [f"spark://{CLOSED},localhost:1", f"k8s://https://{CLOSED}"])
def test_a_master_that_refuses_connections(master: str) -> None:
    with pytest.raises(ConnectionFailed, match=r"accepts no connections: 127\.0\.0\.1:1: conn"):
        require_master(settings(master), {})


def test_a_master_that_does_not_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_master, "_REPLY_S", 0.2)
    monkeypatch.setattr(spark_master, "_CLOSED_S", 0.0)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.socket() as first:
        # The kernel leaves further connections without a reply.
        first.connect(full.getsockname())
        where = f"127.0.0.1:{full.getsockname()[1]}"
        with pytest.raises(ConnectionFailed, match=f"{where}: no reply within 0.2 s"):
            require_master(settings(f"spark://{where}"), {})


def site(directory: Path, **properties: str) -> dict[str, str]:
    """Write a yarn-site.xml, and return the environment that names it."""
    rows = "".join(
        f"<property><name>yarn.resourcemanager.{name.replace('__', '.').replace('_', '-')}</name>"
        f"<value>{text}</value></property>"
        for name, text in properties.items()
    )
    (directory / "yarn-site.xml").write_text(f"<configuration>{rows}</configuration>")
    return {"HADOOP_CONF_DIR": str(directory)}


def test_where_yarn_is(tmp_path: Path, listening: str) -> None:
    port = listening.partition(":")[2]
    yarn = settings("yarn")
    assert require_master(yarn, site(tmp_path, address=listening)) == (listening,)
    env = site(tmp_path, hostname="127.0.0.1", address=f"${{yarn.resourcemanager.hostname}}:{port}")
    assert require_master(yarn, env) == (listening,)
    several = {"ha__enabled": "true", "ha__rm_ids": "a, b"}
    env = site(tmp_path, **several, address__a=CLOSED, address__b=listening)
    assert require_master(yarn, env) == (CLOSED, listening)
    own = {"spark.hadoop.yarn.resourcemanager.address": listening}
    assert require_master(SparkSettings(master="yarn", config=own), site(tmp_path)) == (listening,)
    with pytest.raises(ConnectionFailed, match="Spark's master yarn accepts no") as caught:
        require_master(yarn, site(tmp_path, hostname="127.0.0.1", address=CLOSED))
    assert "yarn-site.xml" in caught.value.hint
    (tmp_path / "yarn-site.xml").write_text("<configuration>")
    with pytest.raises(ConfigError, match=r"yarn-site\.xml cannot be read"):
        require_master(yarn, {"YARN_CONF_DIR": str(tmp_path)})


def pipeline_file(directory: Path, master: str, bootstrap: str) -> Path:
    side = {"kafka": {"common": {"bootstrap.servers": bootstrap}}}
    path = directory / "p.yaml"
    replication = [{"source": {"topic": "t"}}, {"sink": {"topic": "source"}}]
    tree = {"name": "p", "source": side, "target": side, "replication": replication}
    path.write_text(yaml.safe_dump({**tree, "spark": {"master": master}}))
    return path


@pytest.mark.parametrize(
    ("master", "code", "words"),
    [
        (f"spark://{CLOSED}", ExitCode.CONNECTION, "accepts no connections: 127.0.0.1:1: "),
        ("mesos://10.0.0.1:5050", ExitCode.USAGE, "Spark has no Mesos since version 4"),
    ],
)
def test_check_and_start_say_so(
    tmp_path: Path, listening: str, master: str, code: ExitCode, words: str
) -> None:
    file = pipeline_file(tmp_path, master, listening)
    started = k2ktui("start", "-f", file, code=code)
    assert words in started.stderr and started.stderr.count("\n") == 3, "message, unchanged, fix"

    shown = k2ktui("check", "-f", pipeline_file(tmp_path, master, CLOSED), "--json", code=3)
    (spark,) = [c for c in json.loads(shown.stdout)["checks"] if c["name"] == "Spark"]
    assert spark["outcome"] == "fail" and words in spark["detail"] and spark["fatal"]


_MESOS = """WARNING: Using incubator modules: jdk.incubator.vector
Exception in thread "main" org.apache.spark.SparkException: Could not parse Master URL: 'mesos:'
\tat org.apache.spark.SparkContext$.org$apache$spark(SparkContext.scala:3218)
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)""".splitlines()
_NAMELESS = """Exception in thread "main" org.apache.hadoop.security.KerberosAuthException: \
failure to login: javax.security.auth.login.LoginException: java.lang.NullPointerException
\tat org.apache.hadoop.security.UserGroupInformation.doSubjectLogin(UserGroupInformation.java:1)
Caused by: java.lang.NullPointerException: invalid null input: name
\tat com.sun.security.auth.UnixPrincipal.<init>(UnixPrincipal.java:71)
\t... 8 more""".splitlines()


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (_MESOS, "SparkException: Could not parse Master URL: 'mesos:'"),
        (_NAMELESS, "NullPointerException: invalid null input: name"),
        (
            ["Error: Could not find or load main class X", "\tat y"],
            "Error: Could not find or load main class X",
        ),
        (["one", "two"], "two"),
        ([], ""),
    ],
)
def test_why_java_ended(lines: list[str], reason: str) -> None:
    assert java_reason(lines) == reason
