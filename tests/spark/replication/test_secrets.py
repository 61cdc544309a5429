"""No secret on a command line, in a file, in a log or in what is shown."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation

from k2ktui.runtime.node import KafkaNode
from tests.spark.replication.test_spark_user import events_of, logging_to
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    eventually,
    produce,
    unique_name,
)
from tests.support.clusters.secure import SecureNode
from tests.support.clusters.tls import trust_pkcs12
from tests.support.commands.verbs import k2ktui
from tests.support.commands.watch import Watch, files
from tests.support.pipelines.pipeline import Pipeline

PASSWORD, STORE_PASSWORD, SPARK_SECRET = (f"{name}-3cr3t" for name in ("ann", "store", "spark"))
SECRETS = (PASSWORD, STORE_PASSWORD, SPARK_SECRET)
PROPERTIES = "spark.properties"


@pytest.fixture
def pipe(secure: SecureNode, target: KafkaNode, tmp_path: Path) -> Pipeline:
    """A pipeline with secrets of every kind, none of them in its file."""
    topic = create_topic(secure.node)
    secure.allow("ann", [AclOperation.READ], topic)
    produce(secure.node, topic, [Out(b"v%d" % i) for i in range(100)])
    store = tmp_path / "stores" / "trust.p12"
    store.parent.mkdir()
    trust_pkcs12(secure.authority.root.certificate, store, STORE_PASSWORD)
    login = secure.java("ann", "${env:string:LOGIN}") | {
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(store),
        "ssl.truststore.password": "${file:" + str(secret_file(tmp_path)) + "}",
    }
    settings: dict[str, Any] = {
        "source.kafka.common": login,
        "spark.config": {"spark.hadoop.fs.s3a.secret.key": "${env:string:SPARK_SECRET}"},
        "coordination.commit.topic": unique_name("commit"),
        "offsetMapping.topic": unique_name("mapping"),
    }
    (tmp_path / "run" / "events").mkdir(parents=True)
    settings["spark.config"] |= logging_to(tmp_path / "run" / "events")
    return Pipeline(tmp_path / "run", secure.node, target, [topic], settings)


def secret_file(directory: Path) -> Path:
    path = directory / "stores" / "password"
    path.write_text(STORE_PASSWORD)
    return path


def surroundings(directory: Path) -> Mapping[str, str]:
    """Environment in which every file that a run writes goes below ``directory``."""
    for name in ("tmp", "spark", "state"):
        (directory / name).mkdir(parents=True)
    return {
        "TMPDIR": str(directory / "tmp"),
        "SPARK_LOCAL_DIRS": str(directory / "spark"),
        "XDG_STATE_HOME": str(directory / "state"),
        "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={directory / 'tmp'}",
        "LOGIN": PASSWORD,
        "SPARK_SECRET": SPARK_SECRET,
    }


@pytest.mark.slow
def test_a_run_keeps_its_secrets(pipe: Pipeline, tmp_path: Path) -> None:
    # The libraries write whole requests then, a login's among them.
    env = {**surroundings(tmp_path / "run"), "K2KTUI_LOG": "debug,kafka=debug,py4j=debug"}
    with Watch(tmp_path / "run", SECRETS) as watch, pipe.start("-vv", env=env) as run:
        run.expect("firstrecord")
        assert len(run.processes()) >= 3, "the driver, Java and a worker were looked at"
        assert run.java().environ()["LOGIN"] == PASSWORD
        assert watch.holders() == [], "not even while it runs"
        run.stop()
        said = run.out.read_text() + run.err.read_text()
    assert watch.looked > 20
    assert watch.shown == set()
    # While Spark starts, its settings are in a file for this user alone.
    assert {file.name: modes for file, modes in watch.stored.items()} == {
        PROPERTIES: (0o600, 0o700)
    }
    assert [f for f in files(tmp_path / "run" / "tmp") if "k2ktui" in str(f)] == []
    assert not any(secret in said for secret in SECRETS)
    (log,) = (tmp_path / "run" / "state" / "k2ktui" / "log").glob("*.log")
    assert " DEBUG kafka." in log.read_text() and "<redacted>" in log.read_text()
    events = list(events_of(tmp_path / "run" / "events"))
    expect_described_jobs(events, pipe.name)
    assert not any(secret in json.dumps(events) for secret in SECRETS)


def expect_described_jobs(events: Sequence[Mapping[str, Any]], name: str) -> None:
    """Each job says in Spark's UI what it is for: a lap, or the warm-up."""
    assert "ScramLoginModule" not in json.dumps(events)
    jobs = [e["Properties"] for e in events if e["Event"] == "SparkListenerJobStart"]
    said = [job["spark.job.description"] for job in jobs]
    own = f"k2ktui {name}"
    pattern = re.compile(rf"{own}: slot \d+, lap \d+, \d partitions?")
    laps = [text for text in said if pattern.fullmatch(text)]
    assert len(laps) >= 1 and set(said) - set(laps) <= {f"{own}: warm-up"}, said
    stages = [e for e in events if e["Event"] == "SparkListenerStageSubmitted"]
    assert {stage["Properties"]["spark.job.description"] for stage in stages} == set(said)


@pytest.mark.slow
def test_a_killed_driver_leaves_no_secret(pipe: Pipeline, tmp_path: Path) -> None:
    with pipe.start(env=surroundings(tmp_path / "run")) as run:
        run.expect("firstrecord")
        run.signal(signal.SIGKILL)
        run.await_gone()
    assert Watch(tmp_path / "run", SECRETS).holders() == []


def test_secrets_are_not_shown(pipe: Pipeline, tmp_path: Path) -> None:
    file, env = pipe.write(), surroundings(tmp_path / "run")
    assert not any(secret in file.read_text() for secret in SECRETS)
    for options in (["show"], ["show", "--json"], ["show", "--sources"], ["validate", "--json"]):
        said = k2ktui("config", *options, "-f", file, env=env)
        assert said.code == 0, said
        assert not any(secret in said.out + said.err for secret in SECRETS)
    shown = k2ktui("config", "show", "-f", file, env=env).out
    assert shown.count("<redacted>") >= 3


_WITH_A_FAULT = """
import os, sys
from k2ktui.cli import main as command_line
from k2ktui.watch.readers import TargetReader

def fail(reader, known):
    password = os.environ["LOGIN"]
    raise RuntimeError(f"{password} {reader._flow.config.source.kafka.common}")

TargetReader.read = fail
command_line.main()
"""


def test_a_fault_of_our_own_shows_no_secret(pipe: Pipeline, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _WITH_A_FAULT, "status", "-f", str(pipe.write())],
        env=os.environ | surroundings(tmp_path / "run"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 70, ended
    (report,) = [f for f in files(tmp_path / "run" / "state") if f.name.startswith("crash-")]
    text = report.read_text() + ended.stdout + ended.stderr
    assert "RuntimeError" in text and "in fail" in text
    assert not any(secret in text for secret in SECRETS)


_LARGE_TASK = """
import os, sys
from k2ktui.config.model import SparkSettings
from k2ktui.replication.spark.session import SparkRuntime

secrets = {"client_dns_lookup": "no such way", "sasl_plain_password": sys.stdin.read()}
runtime = SparkRuntime(SparkSettings(master="local[1]"), "test", secrets, {})
runtime.start()
runtime.warm_up(1).result()
print("ran", flush=True)
os.read(int(sys.argv[1]), 1)
runtime.stop()
"""


@pytest.mark.slow
def test_a_large_task_is_not_written_to_a_file(tmp_path: Path) -> None:
    """PySpark puts what is larger than 1 MiB into a file; so many partitions are not rare."""
    env = surroundings(tmp_path / "run")
    waits, ends = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", _LARGE_TASK, str(waits)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(waits,),
        env={**os.environ, **env},
    ) as process:
        try:
            assert process.stdin and process.stdout
            process.stdin.write(os.urandom(1 << 21).hex().encode() + PASSWORD.encode())
            process.stdin.close()
            assert process.stdout.readline() == b"ran\n"
            assert eventually(lambda: list(files(tmp_path / "run")), "Spark wrote its files")
            assert Watch(tmp_path / "run", SECRETS).holders() == []
            os.write(ends, b".")
            assert process.wait(TIMEOUT) == 0
        finally:
            process.kill()
            os.close(waits)
            os.close(ends)
