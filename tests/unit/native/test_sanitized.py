"""The core in C, compiled with sanitizers of addresses and undefined behavior, and any bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.records.native_library import compile_core

SECONDS = os.environ.get("K2KTUI_CORE_FUZZ", "4")
"""Of processor time; by hand an hour, in the gate a minute."""


@pytest.mark.timeout(300 + 10 * float(SECONDS))
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_no_bytes_make_it_read_or_write_elsewhere(tmp_path: Path) -> None:
    library = compile_core(
        *(tmp_path / "core.shared", "-O1", "-g"),
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    )
    sanitizer = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    seed = str(int(time.time()))
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.records.core_comparison", library, SECONDS, seed],
        env=os.environ
        | {"LD_PRELOAD": sanitizer, "PYTHONMALLOC": "malloc", "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert "examples from seed" in done.stdout
