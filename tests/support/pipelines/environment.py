"""Variables that shells, images and profiles export, and what a run or the console does with each.

The table of docs/troubleshooting.md is made from these cases, and tests run with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_NOTED = "Not used on a local master; a note names it."
_NONE = "No effect."


@dataclass(frozen=True, slots=True)
class Case:
    """One way in which a shell differs.

    Attributes:
        shown: what is exported, as the page shows it.
        effect: what a run does.
        variables: as they are set; ``{directory}`` is the test's directory.
        noted: the variables that the note of a run must name.
        code: the exit code of a run.
        message: a part of what a run prints when it ends with this code.
    """

    shown: str
    effect: str
    variables: Mapping[str, str] = field(default_factory=dict)
    noted: tuple[str, ...] = ()
    code: int = 0
    message: str = ""


def _unused(name: str, value: str, shown: str = "") -> Case:
    return Case(f"`{name}`{shown}", _NOTED, {name: value}, (name,))


def _harmless(*names: str, effect: str = _NONE, **variables: str) -> Case:
    return Case(", ".join(f"`{name}`" for name in names or variables), effect, variables)


TOGETHER: Mapping[str, tuple[Case, ...]] = {
    "another Spark": (
        _unused("PYSPARK_PYTHON", "/usr/bin/python3", " of a profile"),
        _unused("SPARK_HOME", "/opt/spark-that-is-gone", ": gone, or of another Spark"),
        _unused("SPARK_CONF_DIR", "{directory}/conf"),
        _unused("SPARK_LOCAL_DIRS", "{directory}/not there"),
        _unused("SPARK_REMOTE", "sc://localhost:15002", ", `SPARK_LOCAL_REMOTE`"),
        _unused(
            "SPARK_API_MODE", "connect", ", `SPARK_CONNECT_MODE`, `SPARK_CONNECT_MODE_ENABLED`"
        ),
        _unused("SPARK_DIST_CLASSPATH", "/opt/hadoop/*"),
        _unused("SPARK_TESTING", "1", ", `SPARK_PREPEND_CLASSES`"),
        _unused("PYSPARK_PIN_THREAD", "false"),
        Case(
            "another PySpark on `PYTHONPATH`",
            _NOTED,
            {"PYTHONPATH": "{directory}/other"},
            ("PYTHONPATH",),
        ),
        _harmless(
            PYSPARK_DRIVER_PYTHON="jupyter",
            PYSPARK_DRIVER_PYTHON_OPTS="notebook",
            PYSPARK_SUBMIT_ARGS="--master yarn pyspark-shell",
        ),
        Case("`TMPDIR` with a blank", "Used.", {"TMPDIR": "{directory}/two words"}),
    ),
    "empty": (
        Case(
            "`SPARK_HOME`, `SPARK_REMOTE`: empty",
            _NOTED,
            {"SPARK_HOME": "", "SPARK_REMOTE": "", "PYSPARK_PYTHON": ""},
            ("SPARK_HOME", "SPARK_REMOTE"),
        ),
        Case(
            "`PYTHONWARNINGS=error`",
            "No warning is an error; `error` entries are not passed on to workers.",
            {"PYTHONWARNINGS": "error"},
        ),
        _harmless(
            PYTHONHASHSEED="1",
            PYTHONSTARTUP="{directory}/startup.py",
            PYTHONDONTWRITEBYTECODE="1",
            PYTHONUNBUFFERED="1",
        ),
        Case(
            "`LANG=C`, `LC_ALL=C`",
            "Files are read as UTF-8 anyway; the console draws with ASCII.",
            {"LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
        ),
        _harmless(TERM="dumb", COLUMNS="7", LINES="2", NO_COLOR="1"),
        Case(
            "`JAVA_TOOL_OPTIONS`, `JDK_JAVA_OPTIONS`, `_JAVA_OPTIONS`",
            "Their options count; those of `_JAVA_OPTIONS` win over `spark.config`.",
            {
                "JAVA_TOOL_OPTIONS": "-Dfirst=1",
                "JDK_JAVA_OPTIONS": "-Dsecond=2",
                "_JAVA_OPTIONS": "-Dthird=3",
            },
        ),
        _harmless(CLASSPATH="/opt/other/*"),
        Case(
            "`JAVA_HOME` without a Java 17",
            "The next Java is taken: on the `PATH`, then the packaged one; `check` says so.",
            {"JAVA_HOME": "/opt/java-that-is-gone"},
        ),
        Case(
            "`SSL_CERT_FILE`, `OPENSSL_CONF`: of another OpenSSL",
            "Read by OpenSSL; a run without TLS starts whatever they name.",
            {"SSL_CERT_FILE": "/gone/ca.pem", "OPENSSL_CONF": "{directory}/startup.py"},
        ),
    ),
}

REFUSED: tuple[Case, ...] = (
    Case(
        "`PYTHONOPTIMIZE`",
        "Every command is refused (exit code 5): the Kafka client would read no response.",
        {"PYTHONOPTIMIZE": "1"},
        code=5,
        message="PYTHONOPTIMIZE is set",
    ),
    Case(
        "`JAVA_TOOL_OPTIONS` with which Java does not start",
        "The start is refused (exit code 5); the message names the variable.",
        {"JAVA_TOOL_OPTIONS": "-javaagent:/gone/agent.jar"},
        code=5,
        message="JAVA_TOOL_OPTIONS is set",
    ),
    Case(
        "`_JAVA_OPTIONS` with less memory than Spark needs",
        "The start is refused (exit code 5); the message names the variable.",
        {"_JAVA_OPTIONS": "-Xmx128m"},
        code=5,
        message="_JAVA_OPTIONS is set",
    ),
)

FILES = Case(
    "`ulimit -n` below 512",
    "The start is refused (exit code 5). A lower soft limit is raised.",
    code=5,
    message="the limit of open files is 256, and Spark needs 512 to start",
)
DIRECTORIES: tuple[Case, ...] = (
    Case("a working directory that was deleted", _NONE),
    Case("a working directory with files such as `random.py`", "Workers import none of them."),
)
WRONG_PYTHON = Case(
    "`spark.pyspark.python` in the file: a Python without k2ktui's packages",
    "The start ends (exit code 5) with the reason, after three attempts to start a worker.",
    code=5,
    message="Spark's Python workers do not start (3 attempts): ",
)
CONSOLE: tuple[Case, ...] = (
    Case(
        "`TEXTUAL`, `TEXTUAL_DRIVER`, `TEXTUAL_LOG` and others of Textual's developers",
        _NONE,
        {
            "TEXTUAL": "debug,headless",
            "TEXTUAL_DEBUG": "1",
            "TEXTUAL_DIM_FACTOR": "-5",
            "TEXTUAL_DRIVER": "nowhere:Driver",
            "TEXTUAL_FILTERS": "dim",
            "TEXTUAL_LOG": "/gone/log",
            "TEXTUAL_PRESS": "q",
            "TEXTUAL_SCREENSHOT": "1",
            "TEXTUAL_SHOW_RETURN": "1",
        },
    ),
    Case(
        "`TEXTUAL_COLOR_SYSTEM`",
        "`auto`, `standard`, `256` and `truecolor` count; no other value does.",
        {"TEXTUAL_COLOR_SYSTEM": "none"},
    ),
    Case(
        "`COLUMNS`, `LINES`",
        "The console has the terminal's size.",
        {"COLUMNS": "7", "LINES": "2", "COLORTERM": "none", "ESCDELAY": "long"},
    ),
)

CASES: tuple[Case, ...] = (
    *(case for cases in TOGETHER.values() for case in cases),
    *REFUSED,
    FILES,
    *DIRECTORIES,
    WRONG_PYTHON,
    *CONSOLE,
)


def variables_of(cases: tuple[Case, ...], directory: Path) -> dict[str, str]:
    """Return the variables of some cases, for a test's directory."""
    return {
        name: value.replace("{directory}", str(directory))
        for case in cases
        for name, value in case.variables.items()
    }


def table() -> str:
    """Return the table of the page: a row for each effect."""
    shown: dict[str, list[str]] = {}
    for case in CASES:
        shown.setdefault(case.effect, []).append(case.shown)
    rows = "".join(f"| {'; '.join(cases)} | {effect} |\n" for effect, cases in shown.items())
    return f"| the shell has | what a run does |\n|---|---|\n{rows}"
