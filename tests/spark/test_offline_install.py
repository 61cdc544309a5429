"""A host without internet is installed with the commands of the page, and used."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from k2ktui.errors import ExitCode
from k2ktui.runtime.node import KafkaNode
from tests.support.commands.offline import offline_environment, offline_prefix
from tests.support.commands.without_spark import PACKAGES, Installed, move_a_group, refuse_to_run
from tests.support.console.terminal import Terminal
from tests.support.pipelines.copied import Copied

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


PAGE = ROOT / "docs" / "deployment.md"
SPARK = "'k2ktui[spark]'"


def commands() -> list[str]:
    """The page's two lists of commands: on a host with internet, and on one without."""
    section = PAGE.read_text().split("### Without internet")[1].split("\n### ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def run(script: str, directory: Path, env: dict[str, str], prefix: Sequence[str] = ()) -> None:
    shell = [*prefix, shutil.which("sh") or "sh", "-euxc", script]
    done = subprocess.run(shell, cwd=directory, env=env, timeout=900, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-4000:]


@dataclass(frozen=True)
class Host:
    """A host without internet: where the file was copied to, and its user's environment."""

    place: Path
    env: dict[str, str]
    prefix: Sequence[str]

    @property
    def bin(self) -> Path:
        return Path(self.env["HOME"]) / "opt" / "bin"

    @property
    def k2ktui(self) -> Installed:
        return Installed((*self.prefix, self.bin / "k2ktui"), self.env)

    def follow(self, script: str) -> None:
        """Run commands of the page; a test may not write to /opt."""
        run(script.replace("/opt/k2ktui", str(self.bin.parent)), self.place, self.env, self.prefix)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file that was packed in a checkout on a host with internet."""
    place = tmp_path_factory.mktemp("checkout")
    for name in ("k2ktui", "themes"):
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, place / name, ignore=without)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    run(commands()[0], place, {**os.environ, "PATH": _with_python(place)})
    yield place / "k2ktui-offline.tar"
    shutil.rmtree(place)  # gigabytes, which pytest would keep for three runs


def _with_python(place: Path) -> str:
    """A PATH whose python3 is the Python of this test, which the wheels are for."""
    programs = place / "programs"
    programs.mkdir()
    (programs / "python3").symlink_to(Path(sys.executable).resolve())
    return f"{programs}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
def host(packed: Path, tmp_path: Path) -> Iterator[Host]:
    home = tmp_path / "home"
    made = Host(tmp_path, offline_environment(home), offline_prefix())
    for name in ("cp", "mkdir", "tar"):
        (home / "bin" / name).symlink_to(shutil.which(name) or name)
    (home / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    (tmp_path / packed.name).symlink_to(packed)
    yield made
    shutil.rmtree(home)
    shutil.rmtree(tmp_path / "k2ktui-offline", ignore_errors=True)


def test_a_console_without_spark(
    host: Host, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    lines = commands()[1].splitlines()[:3]  # the rest is only for the demo
    host.follow("\n".join(lines).replace(SPARK, "k2ktui"))
    packages = [path for path in host.bin.parent.glob("lib/*/site-packages/*") if path.is_dir()]
    assert "k2ktui" in {package.name for package in packages}
    assert not {package.name for package in packages} & set(PACKAGES)
    # The clusters are outside of a network namespace: from here on, the network is there.
    program = Installed((host.bin / "k2ktui",), host.env)
    copied = Copied(tmp_path, source, target)
    move_a_group(program, copied)
    refuse_to_run(program, copied.file, ExitCode.REFUSED)
    console = [str(host.bin / "k2ktui"), "-f", str(copied.file)]
    with Terminal(console, size=(120, 40), env=host.env) as terminal:
        terminal.await_text("caught-up")
        terminal.send("3")
        terminal.await_text(copied.group("g"))
        terminal.send("q")
        assert terminal.wait() == 0


def test_everything(host: Host) -> None:
    host.follow(commands()[1])
    assert host.k2ktui("--version").out.startswith("k2ktui, version ")
    shown = host.k2ktui("demo", "--headless", "--seconds", "3").out
    assert "throughput" in shown.split(" pipeline demo: ")[-1]
    # The jars of MirrorMaker 2, which no lock file names, came with the others.
    assert host.k2ktui("demo", "--jars").out == f"{host.env['HOME']}/.cache/k2ktui/maven\n"
