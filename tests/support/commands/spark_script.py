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


def run_script(
    script: str, directory: Path, values: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> Ended:
    """Run Python code in a directory; ``values`` are expressions to evaluate at its end."""
    shown = ", ".join(f"{value!r}: {value}" for value in values)
    file = directory / "script.py"
    file.write_text(script + _SHOW.format(mark=_RESULT, values=shown))
    done = subprocess.run(
        [sys.executable, str(file)],
        cwd=directory,
        env={
            **os.environ,
            "JAVA_HOME": str(spark_java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            **(env or {}),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(_RESULT)]
    read = json.loads(lines[-1].removeprefix(_RESULT)) if lines else {}
    return Ended(done.returncode, done.stdout, done.stderr, read)
