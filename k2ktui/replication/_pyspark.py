"""Everything that the Spark session relies on in PySpark and that PySpark does not promise.

``tests/replication/test_pyspark_private.py`` checks each name and says what breaks without it;
``pyproject.toml`` bounds PySpark's minor version. PySpark takes seconds to import, so the functions
import it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
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


def try_eval(column: Any) -> Any:
    """Return a column that is null where the evaluation of ``column`` fails."""
    from pyspark.sql.classic.column import Column

    jvm = _jvm()
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    tried = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(utils.expression(column._jc))
    return Column(utils.column(tried))


def executed_plan(frame: Any) -> Any:
    """Return the physical plan of a DataFrame."""
    return frame._jdf.queryExecution().executedPlan()


def unstable_expression(frame: Any, names: Sequence[str]) -> str:
    """Return the first expression that may differ between evaluations; "" if there is none.

    Args:
        frame: the DataFrame.
        names: class names of expressions that Spark counts as deterministic within one query.
    """

    def find(expression: Any) -> str:
        children = expression.children()
        for at in range(children.size()):
            found = find(children.apply(at))
            if found:
                return found
        unstable = expression.getClass().getSimpleName() in names
        return str(expression.sql()) if unstable or not expression.deterministic() else ""

    def walk(plan: Any) -> str:
        expressions = plan.expressions()
        for at in range(expressions.size()):
            found = find(expressions.apply(at))
            if found:
                return found
        children = plan.children()
        return next(filter(None, (walk(children.apply(at)) for at in range(children.size()))), "")

    return walk(frame._jdf.queryExecution().analyzed())


def _jvm() -> Any:
    from pyspark import SparkContext

    return SparkContext._jvm
