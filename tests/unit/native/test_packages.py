"""What pip makes of a checkout: with the core in C, and without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from k2ktui.native.binding import LIBRARY, Core, Library
from tests.support.records.core_comparison import convert

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
INSIDE = f"k2ktui/native/{LIBRARY}"
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the package is built from; git is not there."""
    place = tmp_path_factory.mktemp("checkout")
    for name in ("k2ktui", "themes"):
        ignored = shutil.ignore_patterns("__pycache__", LIBRARY)
        shutil.copytree(ROOT / name, place / name, ignore=ignored)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    return place


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what builds the package, but no compiler: pip need not install it each time."""
    folder = tmp_path_factory.mktemp("backend")
    run("-m", "pip", "install", "-q", "--target", str(folder), "hatchling>=1.27", "editables")
    return folder


def run(*arguments: str, env: Mapping[str, str] = MappingProxyType({}), code: int = 0) -> str:
    """Run this Python; return what it printed."""
    variables = {key: value for key, value in os.environ.items() if key != "K2KTUI_NATIVE"}
    done = subprocess.run(
        [sys.executable, *arguments], env={**variables, **env}, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def wheel(checkout: Path, backend: Path, out: Path, **env: str) -> str:
    """Build a wheel without a download; return what pip printed."""
    command = ("-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation", "-w", str(out))
    return run(*command, str(checkout), env={"PYTHONPATH": str(backend), **env})


def load(library: Path) -> Core:
    return Core(Library(library), convert)


def test_a_source_distribution_becomes_a_wheel_with_nothing_but_pip(
    checkout: Path, backend: Path, tmp_path: Path
) -> None:
    """The compiler comes from PyPI; the wheel is for any Python, and an old C library."""
    script = "import os, sys; os.chdir(sys.argv[1])\nfrom hatchling.build import build_sdist\n"
    script += "build_sdist(sys.argv[2])"
    run("-c", script, str(checkout), str(tmp_path), env={"PYTHONPATH": str(backend)})
    (source,) = tmp_path.glob("k2ktui-*.tar.gz")
    made = tmp_path / "made"
    command = ("-m", "pip", "wheel", "-q", "--no-deps", "-w", str(made), str(source))
    # A compiler that the host may have is not used.
    run(*command, env={"K2KTUI_NATIVE": "require", "PATH": str(Path(sys.executable).parent)})
    (archive,) = made.iterdir()
    assert "-py3-none-" in archive.name
    assert sys.platform != "linux" or "-py3-none-manylinux_2_17_" in archive.name
    load(Path(zipfile.ZipFile(archive).extract(INSIDE, tmp_path)))


@needs_cc
def test_an_editable_install_has_it_beside_its_source(
    checkout: Path, backend: Path, tmp_path: Path
) -> None:
    beside = checkout / INSIDE
    beside.write_text("of an installation before")
    run("-m", "venv", "--without-pip", str(tmp_path / "venv"))
    python = str(tmp_path / "venv/bin/python")

    def install(code: int = 0, **env: str) -> str:
        command = ("-m", "pip", "--python", python, "install", "--no-deps", "--no-build-isolation")
        env["PYTHONPATH"] = str(backend)
        return run(*command, "-e", str(checkout), env=env, code=code)

    install(K2KTUI_CC="cc", K2KTUI_NATIVE="require")
    load(beside)
    assert "no-such-cc" in install(1, K2KTUI_CC="no-such-cc", K2KTUI_NATIVE="require")
    assert beside.is_file(), "what was installed before stays"
    wheel(checkout, backend, tmp_path, K2KTUI_NATIVE="off")
    (archive,) = tmp_path.glob("*.whl")
    assert archive.name.endswith("-py3-none-any.whl")
    assert INSIDE not in zipfile.ZipFile(archive).namelist(), "it is of the editable install"
    install(K2KTUI_NATIVE="off")
    assert not beside.exists()


def test_without_a_compiler_it_is_built_without_the_core(
    checkout: Path, backend: Path, tmp_path: Path
) -> None:
    printed = wheel(checkout, backend, tmp_path, K2KTUI_CC="no-such-cc")
    assert "k2ktui is built without its core in C" in printed
    (archive,) = tmp_path.glob("*.whl")
    assert archive.name.endswith("-py3-none-any.whl")
    assert INSIDE not in zipfile.ZipFile(archive).namelist()
