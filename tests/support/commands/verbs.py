"""Verbs of the command line as an operator runs them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.commands.commands import run_command

_TIMEOUT = 400.0  # on a busy machine


@dataclass(frozen=True)
class Said:
    """What a verb said, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def k2ktui(*arguments: str | Path, env: Mapping[str, str] | None = None) -> Said:
    """Run a verb to its end; ``env`` is over our own environment."""
    done = run_command(list(map(str, arguments)), {**os.environ, **(env or {})}, _TIMEOUT)
    return Said(done.returncode, done.stdout, done.stderr)
