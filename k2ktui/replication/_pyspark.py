"""Everything that the Spark session relies on in PySpark and that PySpark does not promise.

``tests/replication/test_pyspark_private.py`` checks each name and says what breaks without it;
``pyproject.toml`` bounds PySpark's minor version. PySpark takes seconds to import, so the functions
import it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

_SHELL = "pyspark-shell"


def launch_java(settings: Path, log: Path) -> Any:
    """Start Spark's Java process and return the gateway to it.

    Args:
        settings: a properties file: settings may hold secrets, which command lines show.
        log: file for Java's output, to keep it off the terminal.
    """
    from pyspark.java_gateway import launch_gateway

    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {settings} {_SHELL}"
    with log.open("wb") as out:
        return launch_gateway(None, {"stdout": out, "stderr": out, "start_new_session": True})


def kill_java(gateway: Any) -> None:
    """Kill the Java process behind a gateway."""
    with contextlib.suppress(OSError):
        gateway.proc.kill()


def end_java(gateway: Any) -> None:
    """Close a gateway; its Java process ends when its standard input closes."""
    with contextlib.suppress(Exception):
        gateway.shutdown()
    with contextlib.suppress(OSError):
        gateway.proc.stdin.close()


def await_java_end(gateway: Any, timeout: float) -> None:
    """Wait for Java to end after ``end_java``; raises subprocess.TimeoutExpired."""
    gateway.proc.wait(timeout)


def silence_lost_java(context: Any) -> None:
    """Replace a handler that writes a traceback to the terminal when Java is killed."""
    context._accumulatorServer.handle_error = lambda *_: None


def has_ended(context: Any) -> bool:
    """Return whether Java has ended or its Spark context has stopped; Python is not notified."""
    try:
        return bool(context._jsc.sc().isStopped())
    except Exception:  # any error means that Java does not answer
        return True


def forget_java() -> None:
    """Make the next Spark context use its own gateway, not that of the previous one."""
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = None
