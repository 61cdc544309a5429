"""Everything that the Spark session relies on in PySpark and that PySpark does not promise.

``test_pyspark_private.py`` checks each name and says what breaks without it;
``pyproject.toml`` bounds PySpark's minor version. PySpark takes seconds to import, so the functions
import it.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

_SHELL = "pyspark-shell"
_HOME = "SPARK_HOME"
# Java writes its port and its secret to the file that the variable names.
_ANSWER = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_GATEWAY_ENV = {"SPARK_CONNECT_MODE": "0"}
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_LOOK_S = 0.01
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MEMORY = "spark.driver.memory"
# The release whose launcher prints these options.
_KNOWN_RELEASE = "4.3."
_OPENED = (
    *("java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect"),
    *("java.base/java.io", "java.base/java.net", "java.base/java.nio", "java.base/java.util"),
    *("java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic"),
    *("java.base/jdk.internal.ref", "java.base/sun.nio.ch", "java.base/sun.nio.cs"),
    *("java.base/sun.security.action", "java.base/sun.util.calendar"),
    "java.security.jgss/sun.security.krb5",
)
_FIXED_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
_MAIN = "org.apache.spark.deploy.SparkSubmit"
# Other variables, properties and files that the launcher reads may change the command.
_HARMLESS = frozenset({_HOME, "SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS"})
_CHANGING = (
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
)

# Expressions that Spark counts as deterministic: of the query, of the session, and random ones.
_UNSTABLE = frozenset(
    {
        *("CurrentTimestamp", "CurrentDate", "CurrentTime", "Now", "LocalTimestamp"),
        *("CurrentUser", "CurrentTimeZone", "CurrentCatalog", "CurrentDatabase", "CurrentPath"),
        "SparkVersion",
        *("KllSketchMergeBigint", "KllSketchMergeFloat", "KllSketchMergeDouble"),
    }
)
_MOMENTS = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"})
# A literal of the SQL text with a date of its own; escaped characters count as none.
_DATED = re.compile(r"""['"]\s*(?:epoch|[+-]?\d{4,}(?:-[^'"]*)?)\s*['"]$""", re.IGNORECASE)
# Texts that become the time of the optimizer, and those that get its date.
_NOW = re.compile(r"\s*(?:now|today|tomorrow|yesterday)", re.IGNORECASE)
_TIME_ONLY = re.compile(r"\s*(?:T|\d{1,2}:)")


def start_java(
    settings: Path, log: Path, answer: Path, properties: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start Spark's Java process; it ends when its standard input closes.

    Args:
        settings: a properties file: settings may hold secrets, which command lines show.
        log: file for Java's output, to keep it off the terminal.
        answer: file that it writes to when it can be connected to, in a private directory.
        properties: what is in the properties file.
    """
    home = spark_home()
    script = str(home / "bin" / "spark-submit")
    # Not in os.environ: the checks of the same start, on another thread, remove the shell's.
    env = {**os.environ, _HOME: str(home)}
    command = java_command(properties, home, env) or (script,)
    with log.open("wb") as out:
        return subprocess.Popen(
            [script, *command[1:], "--properties-file", str(settings), _SHELL],
            executable=command[0],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            start_new_session=True,  # Ctrl-C in the terminal does not reach it
            env={**env, **_GATEWAY_ENV, _ANSWER: str(answer)},
        )


def connect_java(process: subprocess.Popen[bytes], answer: Path) -> Any:
    """Return the gateway to a process that ``start_java`` has started, as soon as it listens.

    Raises:
        RuntimeError: it ended before.
    """
    from pyspark.java_gateway import launch_gateway
    from pyspark.serializers import UTF8Deserializer, read_int

    while not answer.is_file():
        if process.poll() is not None:
            raise RuntimeError(f"Java ended with exit code {process.returncode}")
        time.sleep(_LOOK_S)
    with answer.open("rb") as info:
        port, secret = read_int(info), UTF8Deserializer().loads(info)
    answer.unlink()
    os.environ.update({_PORT: str(port), _SECRET: secret})
    try:
        gateway = launch_gateway()  # connects to what these variables name
    finally:
        del os.environ[_PORT], os.environ[_SECRET]
    gateway.proc = process
    _decide_without_pandas()
    return gateway


def _decide_without_pandas() -> None:
    """Let the converters of NumPy's values decide without PySpark's modules for tests.

    Where pandas is installed, these import it: 0.4 s of CPU time in each start.
    """
    import numpy as np
    from py4j.protocol import INPUT_CONVERTER
    from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

    decides: dict[type, Callable[[object], bool]] = {
        NumpyArrayConverter: lambda value: isinstance(value, np.ndarray) and value.ndim == 1,
        NumpyScalarConverter: lambda value: isinstance(value, np.generic),
    }
    for converter in INPUT_CONVERTER:
        if decide := decides.get(type(converter)):
            converter.can_convert = decide


def submitted_properties() -> dict[str, str] | None:
    """Return Spark's settings of the ``spark-submit`` that started this program; None without one.

    In client mode, the settings that it was given are properties of its Java process.
    """
    if _PORT not in os.environ:
        return None
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway()
    try:
        system = gateway.jvm.java.lang.System
        names = [str(name) for name in system.getProperties().stringPropertyNames()]
        return {name: str(system.getProperty(name)) for name in names if name.startswith("spark.")}
    finally:
        with contextlib.suppress(Exception):
            gateway.close()


def spark_home() -> Path:
    """Return Spark's directory, as Spark's scripts find it."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def java_command(
    properties: Mapping[str, str], home: Path, env: Mapping[str, str]
) -> tuple[str, ...] | None:
    """Return the command of a session's Java process up to the arguments of ``SparkSubmit``.

    ``bin/spark-submit`` starts Java only to print this command, which takes as long as a Java
    process takes to start. None if that is necessary: another release, or something is set that
    may change the command.

    Args:
        properties: Spark's properties.
        home: Spark's directory.
        env: environment variables.
    """
    from pyspark.version import __version__ as release

    jars, options = home / "jars", properties.get(_JAVA_OPTIONS, "")
    is_changed = (
        re.fullmatch(r"local(\[.*\])?", properties["spark.master"]) is None
        or any(name.startswith("SPARK_") and name not in _HARMLESS for name in env)
        or any(name in env for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"))
        or any(name in properties for name in _CHANGING)
        or any(sign in options for sign in ("'", '"', "\\", "-Xmx"))
        or (home / "conf").exists()
    )
    logging_api = sorted(jars.glob("slf4j-api-*.jar"))
    known = release.startswith(_KNOWN_RELEASE) and len(logging_api) == 1
    if is_changed or not known or "JAVA_HOME" not in env or _MEMORY not in properties:
        return None
    return (
        str(Path(env["JAVA_HOME"], "bin", "java")),
        "-cp",
        f"{home / 'conf'}:{logging_api[0]}:{jars / '*'}",
        f"-Xmx{properties[_MEMORY]}",
        *options.split(),
        *_FIXED_OPTIONS,
        _MAIN,
    )


def name_user(gateway: Any, name: str) -> None:
    """Give Hadoop, whose user Spark runs as, a name; its login fails if the system knows none."""
    users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
    users.setLoginUser(users.createRemoteUser(name))


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


def unstable_expression(frame: Any) -> str:
    """Return the first expression that may differ between evaluations; "" if there is none.

    Such expressions are: those that Spark declares nondeterministic; those that it evaluates once
    per query or session; random numbers that it does not declare; and the current time, which the
    parser and the optimizer insert for texts such as ``now``.
    """
    analyzed = frame._jdf.queryExecution().analyzed()
    # What the optimizer does first: functions become the casts and the calls that they stand for.
    rules = _jvm().org.apache.spark.sql.catalyst.optimizer
    return _first(analyzed, _unstable) or _first(
        rules.ReplaceExpressions.apply(analyzed), _unstable_when_replaced
    )


def _first(plan: Any, judge: Callable[[Any], str]) -> str:
    """Return what ``judge`` says first about an expression of a plan, children before parents."""

    def find(expression: Any) -> str:
        return next(filter(None, map(find, _each(expression.children()))), "") or judge(expression)

    finding = next(filter(None, map(find, _each(plan.expressions()))), "")
    return finding or next(
        filter(None, (_first(child, judge) for child in _each(plan.children()))), ""
    )


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(at) for at in range(sequence.size()))


def _unstable(expression: Any) -> str:
    name = expression.getClass().getSimpleName()
    if name == "Literal":
        text = _text_of_moment(expression)
        return "" if _DATED.search(text) else text
    # A time of day becomes one of the current day.
    is_dated = name == "Cast" and expression.child().dataType().sql().startswith("TIME(")
    is_unstable = name in _UNSTABLE or not expression.deterministic() or is_dated
    return str(expression.sql()) if is_unstable else ""


def _text_of_moment(literal: Any) -> str:
    """Return a date or time of the SQL text as it is there; a date for any other literal."""
    origin = literal.origin()
    if literal.dataType().sql() not in _MOMENTS or origin.sqlText().isEmpty():
        return "'epoch'"
    text = str(origin.sqlText().get())
    return text[origin.startIndex().get() : origin.stopIndex().get() + 1]


def _unstable_when_replaced(expression: Any) -> str:
    name = expression.getClass().getSimpleName()
    if name == "StaticInvoke" and expression.functionName() == "aesEncrypt":
        _, _, mode, _, vector, _ = _each(expression.arguments())
        if str(_value(mode)).upper() != "ECB" and _value(vector) == b"":
            return "aes_encrypt without an initialization vector"
    if name == "Cast" and (kind := expression.dataType().sql()) in _MOMENTS:
        text = str(_value(expression.child()))
        if _NOW.match(text) or (kind == "TIMESTAMP" and _TIME_ONLY.match(text)):
            return str(expression.sql())
    return ""


def _value(expression: Any) -> Any:
    """Return the value of a constant; None if it is null, not constant or cannot be evaluated."""
    from py4j.protocol import Py4JJavaError

    try:
        return expression.eval(None) if expression.foldable() else None
    except Py4JJavaError:
        return None


def _jvm() -> Any:
    from pyspark import SparkContext

    return SparkContext._jvm
