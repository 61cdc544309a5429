"""The image of ``.ci/container``, run as a container would: its files read-only, one volume."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.clusters.kafka import eventually

CANNOT = 77
ROOT = Path(__file__).parents[3]

# $1 is the image's root, $2 a directory for its volume, $3 the volume's path, $4 the termination
# log, $5 user and group, $6 further groups: that of the volume, as fsGroup gives it.
# Its devices are its own, as a container's are: those of a host may be for root alone.
_INSIDE = """
mount --bind "$1" "$1"
mount --bind "$2" "$1$3"
mount -t proc proc "$1/proc"
mount -t tmpfs -o mode=755 tmpfs "$1/dev"
for device in null zero full random urandom tty; do
  touch "$1/dev/$device"
  mount --bind "/dev/$device" "$1/dev/$device"
done
touch "$1/dev/termination-log"
mount --bind "$4" "$1/dev/termination-log"
ln -s /proc/self/fd "$1/dev/fd"
mkdir -m 1777 "$1/dev/shm"
mount -o remount,ro,bind "$1"
root=$1 volume=$3 user=$5 groups=$6
shift 6
exec chroot --userspec="$user" --groups="$groups" "$root" /usr/bin/env -i --chdir="$volume" "$@"
"""


@dataclass(frozen=True)
class Image:
    """An image: its files, and what it says of how to run it."""

    root: Path
    config: Mapping[str, Any]

    @property
    def volume(self) -> str:
        """The path of its only volume."""
        (path,) = self.config["Volumes"]
        return str(path)

    def run(self, volume: Path, *arguments: str, user: str = "") -> subprocess.Popen[str]:
        """Run it with a directory as its volume; the process ends with what it runs.

        The volume's group is one of the user's, and its termination log is beside it.
        """
        inside = [
            *self.config["Env"],
            *self.config["Entrypoint"],
            *(arguments or self.config["Cmd"]),
        ]
        log = termination_log(volume)
        log.touch()
        log.chmod(0o666)  # as the kubelet makes it
        where = [str(self.root), str(volume), self.volume, str(log)]
        who = [user or self.config["User"], str(volume.stat().st_gid)]
        alone = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
        return subprocess.Popen(
            [*alone, "bash", "-euc", _INSIDE, "bash", *where, *who, *inside],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def termination_log(volume: Path) -> Path:
    """Return the file that a container with this volume has at ``/dev/termination-log``."""
    return volume.with_name("termination-log")


def config_map(directory: Path, **files: str) -> Path:
    """Make a directory as Kubernetes mounts a ConfigMap: links to files below ``..data``."""
    version = directory / "..2026_11_30_12_00_00.123456789"
    version.mkdir(parents=True)
    (directory / "..data").symlink_to(version.name)
    for name, text in files.items():
        (version / name).write_text(text)
        (directory / name).symlink_to(Path("..data", name))
    return directory


def build_image(folder: Path) -> Image:
    """Build the image, or skip the test where none can be built."""
    done = subprocess.run(
        [str(ROOT / ".ci" / "container"), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode == CANNOT:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout[-5000:]
    described = json.loads((folder / "image.json").read_text())
    return Image(folder / "root", described["OCIv1"]["config"])


def first_process(container: subprocess.Popen[str]) -> psutil.Process:
    """Return the process that is the first one in a container."""
    processes: Sequence[psutil.Process] = eventually(
        lambda: psutil.Process(container.pid).children(), "the container has a process"
    )
    return processes[0]
