"""An archive brings everything to a host without internet: it is packed, installed and used."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from k2ktui.errors import ExitCode
from k2ktui.runtime.node import KafkaNode
from tests.support.copied import Copied
from tests.support.offline import offline_environment, offline_prefix
from tests.support.terminal import Terminal
from tests.support.without_spark import PACKAGES, Installed, move_a_group, refuse_to_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Host:
    """A host without internet: the extracted archive, and a virtual environment."""

    archive: Path
    env: dict[str, str]
    prefix: Sequence[str]

    @property
    def bin(self) -> Path:
        return Path(self.env["HOME"]) / "venv" / "bin"

    @property
    def k2ktui(self) -> Installed:
        return Installed((*self.prefix, self.bin / "k2ktui"), self.env)

    def install(self, what: str) -> None:
        """Install from the archive, as docs/deployment.md says."""
        wheels = self.archive / "wheels"
        pip = Installed((*self.prefix, self.bin / "python", "-m", "pip"), self.env)
        pip("install", "-q", "--no-index", "--find-links", wheels, what)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of an extracted archive."""
    place = tmp_path_factory.mktemp("archive")
    wheels, packed = place / "wheels", place / "k2ktui-offline.tar"
    for arguments in (
        ("pip", "wheel", "-q", "-w", wheels, f"{ROOT}[spark]"),
        ("k2ktui", "bundle", "create", "--wheels", wheels, "-o", packed),
    ):
        command = [sys.executable, "-m", *map(str, arguments)]
        subprocess.run(command, check=True, timeout=900)
    with tarfile.open(packed) as extracted:
        extracted.extractall(place, filter="data")
    yield place / "k2ktui-offline"
    shutil.rmtree(place)  # gigabytes, which pytest would keep for three runs


@pytest.fixture
def host(archive: Path, tmp_path: Path) -> Iterator[Host]:
    made = Host(archive, offline_environment(tmp_path / "home"), offline_prefix())
    subprocess.run([sys.executable, "-m", "venv", made.bin.parent], check=True)
    yield made
    shutil.rmtree(made.env["HOME"])


def test_a_console_without_spark(
    host: Host, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    host.install("k2ktui")
    packages = [each for each in host.bin.parent.glob("lib/*/site-packages/*") if each.is_dir()]
    assert "k2ktui" in {each.name for each in packages}
    assert not {each.name for each in packages} & set(PACKAGES)
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


def test_everything_from_the_archive(host: Host) -> None:
    host.install("k2ktui")
    assert host.k2ktui("--version").out.startswith("k2ktui, version ")
    host.install("k2ktui[spark]")
    assert "93 jars" in host.k2ktui("bundle", "load", host.archive).err
    shown = host.k2ktui("demo", "--headless", "--seconds", "3").out
    assert "orders" in shown.split("source → target")[-1]
