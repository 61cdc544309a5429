"""Compile ``k2ktui/native/core.c`` while the package is built, with a compiler from PyPI.

The library has no Python headers in it: one wheel is for all versions of Python. An editable
install has it beside its source. Variables of the shell:

- ``K2KTUI_NATIVE``: ``off`` builds without it, and needs no compiler; ``require`` fails where it
  cannot be compiled; otherwise, the package is then built without it, with a warning.
- ``K2KTUI_CC``: the command of another compiler, e.g. ``cc``; nothing is downloaded then.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_ZIG = "ziglang>=0.15,<0.18"
_HAS_ZIG = {
    ("Linux", "x86_64"),
    ("Linux", "aarch64"),
    ("Darwin", "x86_64"),
    ("Darwin", "arm64"),
}
_SOURCE = "k2ktui/native/core.c"
_LIBRARY = "k2ktui/native/core.shared"
_FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-s")
# The oldest C libraries that the compiled library runs with.
_GLIBC, _MUSL = "2.17", "1_1"


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the library to a wheel, or puts it beside its source."""

    _directory: Path | None = None

    def dependencies(self) -> list[str]:
        """Return the compiler, if one is needed."""
        if _mode() == "off" or os.environ.get("K2KTUI_CC") or not _zig_is_for_this_machine():
            return []
        return [_ZIG]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library, before files are collected."""
        beside = Path(self.root, _LIBRARY)
        if _mode() == "off":
            _remove_former(beside, version)
            return
        self._directory = Path(tempfile.mkdtemp(prefix="k2ktui-build-"))
        library = self._directory / beside.name
        try:
            zig = _compile(Path(self.root, _SOURCE), library)
        except (OSError, RuntimeError) as error:
            shutil.rmtree(self._directory)
            if _mode() == "require":
                raise
            self.app.display_warning(f"k2ktui is built without its core in C: {error}")
            _remove_former(beside, version)
            return
        if version == "editable":
            # Renamed, not written: a process may have the former one in use.
            new = beside.with_suffix(".new")
            shutil.copy2(library, new)
            new.replace(beside)
            return
        build_data["force_include"][str(library)] = _LIBRARY
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform_tag(zig=zig)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled, which is in the wheel now."""
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


def _remove_former(library: Path, version: str) -> None:
    """Remove the library of an editable install before this one: it may be of another source."""
    if version == "editable":
        library.unlink(missing_ok=True)


def _mode() -> str:
    return os.environ.get("K2KTUI_NATIVE", "")


def _zig_is_for_this_machine() -> bool:
    return (platform.system(), platform.machine()) in _HAS_ZIG


def _is_musl() -> bool:
    return "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "")


def _compile(source: Path, library: Path) -> bool:
    """Compile; return whether with the compiler from PyPI, for the oldest C libraries.

    Raises:
        RuntimeError: there is no compiler, or it failed.
    """
    given = os.environ.get("K2KTUI_CC")
    zig = not given and find_spec("ziglang") is not None
    if zig:
        command = [sys.executable, "-m", "ziglang", "cc", *_zig_target()]
    elif given:
        command = shlex.split(given)
    elif shutil.which("cc"):
        command = ["cc"]
    else:
        raise RuntimeError("there is no C compiler")
    # Not in the home directory, which may be read-only.
    caches = {
        name: str(library.parent / "zig")
        for name in ("ZIG_LOCAL_CACHE_DIR", "ZIG_GLOBAL_CACHE_DIR")
    }
    done = subprocess.run(
        [*command, *_FLAGS, "-o", str(library), str(source)],
        env=os.environ | caches,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return zig


def _zig_target() -> list[str]:
    """Return the options for any processor of this kind: that of an executor may be another."""
    if platform.system() != "Linux":
        return ["-mcpu=baseline"]
    libc = "musl" if _is_musl() else f"gnu.{_GLIBC}"
    return ["-mcpu=baseline", "-target", f"{platform.machine()}-linux-{libc}"]


def _platform_tag(*, zig: bool) -> str:
    if zig and platform.system() == "Linux":
        kind = f"musllinux_{_MUSL}" if _is_musl() else f"manylinux_{_GLIBC.replace('.', '_')}"
        return f"{kind}_{platform.machine()}"
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return tag.replace("universal2", platform.machine())  # a Python for both of Apple's processors
