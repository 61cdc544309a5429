"""What the Spark session relies on in PySpark without its promise (``replication/_pyspark.py``).

A failure here after an update of PySpark says which of its private names moved, and what breaks.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from k2ktui.config.model import SparkSettings
from k2ktui.replication import _pyspark
from k2ktui.replication.spark.environment import use_own_spark
from k2ktui.replication.spark.settings import properties_text, spark_properties
from k2ktui.runtime.java import spark_java_home
from tests.support.commands.nameless import COMMAND as NAMELESS
from tests.support.commands.nameless import require_nameless
from tests.support.pipelines.pipeline import RUN_TIMEOUT

_SESSION = """
import os, signal, time
from k2ktui.config.model import SparkSettings
from k2ktui.replication import _pyspark
from k2ktui.replication.spark.session import LapLost, SparkRuntime
from pyspark import SparkContext

runtime = SparkRuntime(SparkSettings(master="local[1]"), "test", {}, {})
runtime.start()
import sys
assert "pandas" not in sys.modules, "where it is installed, each start would import it"
from py4j.protocol import INPUT_CONVERTER
import numpy as np
first = [next((type(one).__name__ for one in INPUT_CONVERTER if one.can_convert(value)), "")
         for value in (np.ones(2), np.int64(1), np.ones((2, 2)), "a")]
assert first == ["NumpyArrayConverter", "NumpyScalarConverter", "ListConverter", ""], first
context, java = runtime._context, runtime._gateway.proc
assert os.getsid(java.pid) == java.pid, "Ctrl-C in the terminal would end Java before the driver"
assert context._jsc.sc().isStopped() is False, "a living session would count as ended"
assert not _pyspark.has_ended(context)
assert callable(context._accumulatorServer.handle_error), "a killed Java would print a traceback"
assert SparkContext._gateway is not None, "nothing to forget: a restart would be different"
from pyspark.sql import SparkSession, functions as f
numbers = SparkSession(context).range(1)
tried = numbers.select(_pyspark.try_eval(f.struct(f.expr("1 / (id - id)").alias("v"))))
assert tried.collect()[0][0] is None, "one record's error would fail its micro-batch"
assert _pyspark.executed_plan(tried).children().size(), "no plan to check"
assert _pyspark.unstable_expression(tried) == ""
assert "rand" in _pyspark.unstable_expression(numbers.select(f.rand()))
for name in ("current_timestamp()", "current_user()"):
    unstable = _pyspark.unstable_expression(numbers.select(f.expr(name)))
    assert name in unstable, "the query's or session's own values would be allowed"
for text in ("TIMESTAMP'now'", "CAST('today' AS DATE)"):
    unstable = _pyspark.unstable_expression(numbers.select(f.expr(text)))
    assert unstable == text, "the time of the start would be written to records"
_pyspark.kill_java(runtime._gateway)
java.wait(180)
assert _pyspark.has_ended(context), "a killed Java would not be noticed"
try:
    runtime._living()
except LapLost:
    pass  # the lap that reports the end; the next one runs
again = runtime._living()
assert again is not context and runtime._gateway.proc.pid != java.pid, "Spark is not restarted"
assert not _pyspark.has_ended(again)
second = runtime._gateway.proc
runtime.stop()
second.wait(180)
assert SparkContext._gateway is None and SparkContext._jvm is None
print("as expected", flush=True)
"""

_NAMELESS = """
from k2ktui.config.model import SparkSettings
from k2ktui.replication import _pyspark
from k2ktui.replication.spark.session import SparkRuntime

if WITHOUT:
    _pyspark.name_user = lambda gateway, name: None
runtime = SparkRuntime(SparkSettings(master="local[1]"), "test", {}, {})
try:
    runtime.run_once(1, 300.0)
finally:
    runtime.stop()
print("as expected", flush=True)
"""


def test_pyspark_connects_to_a_java_process_that_it_did_not_start() -> None:
    from pyspark.java_gateway import launch_gateway

    text = inspect.getsource(launch_gateway)
    names = (_pyspark._PORT, _pyspark._SECRET, _pyspark._ANSWER)
    assert all(f'"{name}"' in text for name in names), "a second Java process would be started"


def local_properties(directory: Path, **config: str) -> dict[str, str]:
    settings = SparkSettings(master="local[2]", config=config)
    return spark_properties(settings, "test", directory, directory / "log4j2.properties")


def test_java_gets_the_command_that_sparks_launcher_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a release of Spark would start without an option that it needs."""
    for name in [name for name in os.environ if name.startswith("SPARK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("JAVA_HOME", str(spark_java_home()))
    properties = local_properties(tmp_path)
    file = tmp_path / "spark.properties"
    file.write_text(properties_text(properties))
    home = _pyspark.spark_home()
    command = _pyspark.java_command(properties, home, {**os.environ, "SPARK_HOME": str(home)})
    assert command is not None, "this release is not known: each start runs the launcher"
    arguments = ["--properties-file", str(file), "pyspark-shell"]
    printed = subprocess.run(
        [
            *(command[0], "-Xmx128m", "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"),
            *("org.apache.spark.deploy.SparkSubmit", *arguments),
        ],
        env={**os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    # The command follows a line that ends with a null character.
    assert printed.partition("\0\n")[2].split("\0") == [*command, *arguments, ""]


@pytest.mark.parametrize(
    ("config", "variables"),
    [
        ({"spark.driver.extraClassPath": "/own/*"}, {}),
        ({"spark.driver.extraJavaOptions": "-Dname='two words'"}, {}),
        ({}, {"SPARK_SUBMIT_OPTS": "-Dname=value"}),
        ({}, {"SPARK_CONF_DIR": "/own"}),
        ({}, {"HADOOP_CONF_DIR": "/own"}),
    ],
)
def test_the_launcher_runs_if_something_may_change_the_command(
    tmp_path: Path, config: dict[str, str], variables: dict[str, str]
) -> None:
    home = _pyspark.spark_home()
    env = {"JAVA_HOME": "/java", **variables}
    command = _pyspark.java_command(local_properties(tmp_path, **config), home, env)
    plain = _pyspark.java_command(local_properties(tmp_path), home, {"JAVA_HOME": "/java"})
    assert command is None and plain is not None


def test_java_is_started_while_the_checks_of_the_same_start_remove_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do so on another thread; a start failed with "'SPARK_HOME'" as its reason."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(spark_java_home()))
    settings, environments = SparkSettings(master="local[2]"), []

    def start(command: list[str], env: dict[str, str], **_: object) -> None:
        use_own_spark(settings)
        environments.append(env)

    monkeypatch.setattr(subprocess, "Popen", start)
    _pyspark.start_java(tmp_path / "s", tmp_path / "l", tmp_path / "a", local_properties(tmp_path))
    assert [env["SPARK_HOME"] for env in environments] == [str(_pyspark.spark_home())]


@pytest.mark.slow
def test_a_session_ends_and_starts_again_by_the_private_names(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SESSION],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.stdout == "as expected\n", done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("without", [False, True])
def test_hadoop_gets_a_user_where_the_user_id_has_no_name(tmp_path: Path, without: bool) -> None:
    """Otherwise no session starts in a container that runs as any user id."""
    require_nameless()
    done = subprocess.run(
        [*NAMELESS, sys.executable, "-c", _NAMELESS.replace("WITHOUT", str(without))],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT,
        env={**os.environ, "TMPDIR": str(tmp_path), "HOME": "/proc/self"},
    )
    if without:
        assert "Spark did not start" in done.stderr, "Hadoop needs no name any more"
    else:
        assert done.stdout == "as expected\n", done.stderr
