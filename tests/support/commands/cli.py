"""The command line as a user calls it, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.commands.commands import run_command
from tests.support.commands.json_names import check_names


def k2ktui(
    *arguments: str | Path,
    code: int | None = 0,
    env: Mapping[str, str] | None = None,
    timeout: float = 400,
) -> subprocess.CompletedProcess[str]:
    """Run a command and expect its exit code; None accepts any."""
    done = run_command(list(map(str, arguments)), {**os.environ, **(env or {})}, timeout)
    said = f"{done.args}\n{done.stdout}\n{done.stderr}"
    assert code in (None, done.returncode), f"exit code {done.returncode}, not {code}: {said}"
    assert "Traceback" not in said
    return done


def k2ktui_json(*arguments: str | Path, code: int | None = 0, **options: Any) -> Any:
    """Run a command with ``--json`` and return what it printed."""
    done = k2ktui(*arguments, "--json", code=code, **options)
    assert done.stdout, f"{done.args} printed nothing, exit code {done.returncode}: {done.stderr}"
    printed = json.loads(done.stdout)
    check_names(printed, tuple(map(str, arguments)))
    return printed
