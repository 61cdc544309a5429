"""Run a script as a Spark user does: a process of its own, with a session of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k2ktui.runtime.java import spark_java_home

_RESULT = "RESULT "
_TIMEOUT_S = 800.0  # on a loaded machine
_SHOW = """
import json as _json
print({mark!r} + _json.dumps({{{values}}}, default=str))
"""


@dataclass(frozen=True)
class Ended:
    """A script that has ended: its exit code, what it printed, and the values asked for."""

    code: int
    out: str
    err: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class User:
    """Who runs a script: the Python of an environment, and all environment variables."""

    python: Path
    env: Mapping[str, str]


def run_script(
    script: str,
    directory: Path,
    values: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    *,
    user: User | None = None,
) -> Ended:
    """Run Python code in a directory.

    Args:
        script: the code.
        directory: where it runs.
        values: expressions to evaluate at its end.
        env: more environment variables.
        user: who runs it; by default this test, with a Java and a Python for Spark.
    """
    shown = ", ".join(f"{value!r}: {value}" for value in values)
    file = directory / "script.py"
    file.write_text(script + _SHOW.format(mark=_RESULT, values=shown))
    user = user or _this_user()
    done = subprocess.run(
        [str(user.python), str(file)],
        cwd=directory,
        env={**user.env, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(_RESULT)]
    read = json.loads(lines[-1].removeprefix(_RESULT)) if lines else {}
    return Ended(done.returncode, done.stdout, done.stderr, read)


def _this_user() -> User:
    own = {
        "JAVA_HOME": str(spark_java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return User(Path(sys.executable), {**os.environ, **own})
