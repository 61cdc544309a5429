"""The library of the core in C for tests: the installed one, or one that is compiled for them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

import k2ktui.native
from k2ktui.native.binding import Core, Unavailable, is_required, load_library
from tests.support.records.core_comparison import open_core

SOURCE = Path(k2ktui.native.__file__).with_name("core.c")


def installed_or_compiled() -> Core:
    """Return a core; the test is skipped where there is neither a library nor a compiler."""
    try:
        load_library()
    except Unavailable as error:
        if is_required():
            raise
        if shutil.which("cc") is None:
            pytest.skip(f"the core of batches: {error}, and there is no C compiler")
        return open_core(_compiled())
    return open_core()


@cache
def _compiled() -> Path:
    return compile_core(Path(tempfile.mkdtemp(prefix="k2ktui-core-"), "core.shared"), "-O2")


def compile_core(library: Path, *options: str) -> Path:
    """Compile the core with the system's compiler, without a warning."""
    command = ["cc", "-std=c11", "-fPIC", "-shared", "-fvisibility=hidden"]
    command += ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
    subprocess.run([*command, *options, "-o", str(library), str(SOURCE)], check=True)
    return library
