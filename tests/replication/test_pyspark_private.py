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

_SESSION = """
import os, signal, time
from k2ktui.config.model import SparkSettings
from k2ktui.replication import _pyspark
from k2ktui.replication.spark import LapLost, SparkRuntime
from pyspark import SparkContext

runtime = SparkRuntime(SparkSettings(master="local[1]"), "test", {}, {})
runtime.start()
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
assert _pyspark.unstable_expression(tried, ()) == ""
assert "rand" in _pyspark.unstable_expression(numbers.select(f.rand()), ())
moment = numbers.select(f.current_timestamp())
assert "current_timestamp" in _pyspark.unstable_expression(moment, ["CurrentTimestamp"])
_pyspark.kill_java(runtime._gateway)
java.wait(30)
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
second.wait(30)
assert SparkContext._gateway is None and SparkContext._jvm is None
print("as expected", flush=True)
"""


def test_javas_output_can_be_redirected() -> None:
    from pyspark.java_gateway import launch_gateway

    parameters = list(inspect.signature(launch_gateway).parameters)
    assert parameters[:2] == ["conf", "popen_kwargs"], "Java's output would reach the terminal"


@pytest.mark.slow
def test_a_session_ends_and_starts_again_by_the_private_names(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SESSION],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.stdout == "as expected\n", done.stderr
    assert "Traceback" not in done.stderr
