"""The library of the core in C for tests: the installed one, or one that is compiled for them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest import mock

import pytest

import k2ktui.native
from k2ktui.log import core
from k2ktui.native.binding import LIBRARY, Core, Library, is_required
from tests.support.records.core_comparison import convert

SOURCE = Path(k2ktui.native.__file__).with_name("core.c")


def installed_or_compiled() -> Core:
    """Return a core; the test is skipped where there is neither a library nor a compiler."""
    return Core(Library(library_path()), convert)


def library_path() -> Path:
    """Return where the installed library is, or one that is compiled now."""
    installed = SOURCE.with_name(LIBRARY)
    if installed.is_file() or is_required():
        return installed
    if shutil.which("cc") is None:
        pytest.skip("k2ktui was installed without its core in C, and there is no C compiler")
    return _compiled()


@contextmanager
def in_c() -> Iterator[None]:
    """Let the product use the core."""
    library = Library(library_path())
    with mock.patch.object(core, "_library", lambda: library):
        yield


@contextmanager
def in_python() -> Iterator[None]:
    """Let the product do without the core."""
    with mock.patch.object(core, "_library", lambda: "a test does without it"):
        yield


@pytest.fixture(params=[in_python, in_c], scope="module")
def with_and_without_core(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run each test of a module with the core in C, and without it."""
    with request.param():
        yield


@cache
def _compiled() -> Path:
    return compile_core(Path(tempfile.mkdtemp(prefix="k2ktui-core-"), "core.shared"), "-O2")


def compile_core(library: Path, *options: str) -> Path:
    """Compile the core with the system's compiler, without a warning."""
    command = ["cc", "-std=c11", "-fPIC", "-shared", "-fvisibility=hidden"]
    command += ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
    subprocess.run([*command, *options, "-o", str(library), str(SOURCE)], check=True)
    return library
