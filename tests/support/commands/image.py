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

# $1 is the image's root, $2 a directory for its volume, $3 the volume's path, $4 user and group.
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
ln -s /proc/self/fd "$1/dev/fd"
mkdir -m 1777 "$1/dev/shm"
mount -o remount,ro,bind "$1"
root=$1 volume=$3 user=$4
shift 4
exec chroot --userspec="$user" "$root" /usr/bin/env -i --chdir="$volume" "$@"
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
        """Run it with a directory as its volume; the process ends with what it runs."""
        inside = [
            *self.config["Env"],
            *self.config["Entrypoint"],
            *(arguments or self.config["Cmd"]),
        ]
        where = [str(self.root), str(volume), self.volume, user or self.config["User"]]
        alone = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
        return subprocess.Popen(
            [*alone, "bash", "-euc", _INSIDE, "bash", *where, *inside],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


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
