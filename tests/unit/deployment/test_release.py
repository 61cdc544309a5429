"""What ``.ci/release`` and the release's workflow are made of fits k2ktui, and each other."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2ktui.version import __version__

ROOT = Path(__file__).parents[3]
DEB = ROOT / ".ci" / "deb"
BUILD = (DEB / "build").read_text()
UNITS = sorted((ROOT / "docs" / "deployment").glob("*@.service"))
WORKFLOW: dict[str, Any] = yaml.safe_load(
    (ROOT / ".github" / "workflows" / "release.yml").read_text()
)
STEPS: list[dict[str, Any]] = WORKFLOW["jobs"]["wheel"]["steps"]


def test_pages_and_manifests_name_this_version() -> None:
    names = ("deployment.md", "containers.md", "deployment/kubernetes.yaml")
    for name in names:
        text = (ROOT / "docs" / name).read_text()
        versions = re.findall(r"\bk2ktui[-_:](\d+\.\d+\.\d+)", text)
        assert versions and {*versions} == {__version__}, name


def test_the_changelog_has_this_version() -> None:
    sections = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert next(name for name in sections if name != "Unreleased") == __version__


@pytest.mark.parametrize(
    "script",
    ["release", "try-release", "container", "deb/build", "deb/postinst", "deb/prerm", "deb/postrm"],
)
def test_scripts_can_be_read_by_their_shell(script: str) -> None:
    file = ROOT / ".ci" / script
    assert file.stat().st_mode & 0o111
    shell = "bash" if file.read_text().splitlines()[0].endswith("bash") else "sh"
    done = subprocess.run([shell, "-n", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_control_file_is_filled_in_and_in_debians_form() -> None:
    control = (DEB / "control").read_text()
    assert set(re.findall(r"@\w+@", control)) == set(re.findall(r"s/(@\w+@)/", BUILD))
    fields = dict(line.split(": ", 1) for line in control.splitlines() if not line.startswith(" "))
    assert fields.keys() >= {"Package", "Version", "Architecture", "Maintainer", "Description"}
    # The environment's modules are compiled for one minor version of Python.
    assert "python3.@MINOR@" in fields["Depends"].split(", ")
    assert len(fields["Description"]) <= 80


def test_the_units_of_the_deb_are_those_of_the_page(tmp_path: Path) -> None:
    """Lines are added after and before these, which must be there once."""
    (made,) = re.findall(r"^for unit in .+?^done$", BUILD, re.MULTILINE | re.DOTALL)
    folder = tmp_path / "usr" / "lib" / "systemd" / "system"
    folder.mkdir(parents=True)
    places = {"source": str(DEB), "tree": str(tmp_path)}
    subprocess.run(["bash", "-euc", made], env={**os.environ, **places}, check=True)
    assert sorted(unit.name for unit in folder.iterdir()) == [unit.name for unit in UNITS]
    added = ["Documentation=man:k2ktui(1)", "EnvironmentFile=-/etc/default/k2ktui"]
    for unit in UNITS:
        lines = (folder / unit.name).read_text().splitlines()
        assert [line for line in lines if line in added] == added
        assert [line for line in lines if line not in added] == unit.read_text().splitlines()
        assert "/opt/k2ktui/bin/k2ktui " in unit.read_text()
    assert 'cp -a /opt/k2ktui "${tree}/opt/"' in BUILD


def test_an_upgrade_stops_what_runs_of_every_unit() -> None:
    stopped = re.findall(r"'([\w-]+@)\*\.service'", (DEB / "prerm").read_text())
    assert sorted(f"{name}.service" for name in stopped) == [unit.name for unit in UNITS]


def test_the_workflow_tries_the_oldest_and_the_newest_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    match = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"])
    assert match
    ends = [f"3.{match[1]}", f"3.{int(match[2]) - 1}"]
    (setup,) = [step for step in STEPS if "setup-python" in step.get("uses", "")]
    assert setup["with"]["python-version"].split() == ends
    (trial,) = [step["run"] for step in STEPS if "try-release" in step.get("run", "")]
    assert re.findall(r"\bpython(3\.\d+)", trial) == ends


def test_the_workflow_builds_with_the_core_and_publishes_nothing() -> None:
    assert WORKFLOW["jobs"]["wheel"]["env"] == {"K2KTUI_NATIVE": "require"}
    assert WORKFLOW["permissions"] == {"contents": "read"}
    # YAML 1.1 reads the key "on" as true.
    assert WORKFLOW[True] == {"push": {"tags": ["v*"]}}  # type: ignore[index]
