"""The image that ``Dockerfile`` makes: built on a bare Debian, run between the tests' brokers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import TIMEOUT, create_topic, eventually, produce
from tests.support.commands.image import (
    Image,
    build_image,
    config_map,
    first_process,
    termination_log,
)
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.traffic import mixture

pytestmark = pytest.mark.slow
# As OpenShift runs it: a user id of no user, in group 0.
NAMELESS = "1000690000:0"
# With runAsGroup, only fsGroup lets it write the volume.
OTHER_GROUP, FS_GROUP = "65532:65532", 2000
USERS = {"its user": ("", 0), "any user": (NAMELESS, 0), "fsGroup": (OTHER_GROUP, FS_GROUP)}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    folder = tmp_path_factory.mktemp("image")
    yield build_image(folder)
    # Gigabytes, which pytest would keep for three runs; without mounts when the processes are gone.
    shutil.rmtree(folder)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume as an emptyDir without ``fsGroup`` is on OpenShift: group 0 writes it."""
    made = tmp_path / "volume"
    made.mkdir()
    os.chown(made, 0, 0)
    made.chmod(0o2770)
    return made


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def finish(container: subprocess.Popen[str], timeout: float = 300) -> str:
    out, _ = container.communicate(timeout=timeout)
    return out


def test_its_command_is_the_help(image: Image, volume: Path) -> None:
    container = image.run(volume)
    assert "Usage: k2ktui" in finish(container) and container.returncode == 0


def test_commands_that_read(image: Image, volume: Path) -> None:
    container = image.run(volume, "jobs", "list", user=NAMELESS)
    out = finish(container)
    assert container.returncode == 0 and "note:" not in out and "Traceback" not in out, out


def test_the_error_that_ends_it_is_in_the_termination_log(image: Image, volume: Path) -> None:
    container = image.run(volume, "start", "-f", "missing.yaml", user=NAMELESS)
    out = finish(container)
    reason = termination_log(volume).read_text()
    assert container.returncode == 2 and "\n" not in reason and "missing.yaml" in reason
    assert out.split() == ["k2ktui:", *reason.split()]


@pytest.mark.rotate("who", list(USERS))
def test_a_copy_with_probes(
    who: str, image: Image, volume: Path, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    user, group = USERS[who]
    os.chown(volume, 0, group)
    volume.chmod(0o2770)
    topic = create_topic(source)
    produce(source, topic, mixture(1, 2000, 1))
    pipe = Pipeline(tmp_path, source, target, [topic])
    pipe.mode = "shared"
    config_map(volume / "config", **{"pipeline.yaml": pipe.write().read_text()})
    arguments = ("start", "-f", "config/pipeline.yaml", "--http", "0", "--log-format", "json")

    container = image.run(volume, *arguments, user=user)
    try:
        assert container.stdout is not None
        url = ""
        lines: list[str] = []
        while not url:
            line = container.stdout.readline()
            assert line, "".join(lines)
            lines.append(line)
            if "serving /livez" in line:
                url = json.loads(line)["text"].rpartition(" ")[2]
        assert get(f"{url}/livez") == (200, "alive\n")

        def takes_part() -> str:
            assert container.poll() is None, "".join(lines) + finish(container)
            return _is_ready(url)

        ready = eventually(takes_part, "it takes part")
        assert "running: 2 slots" in ready or "standby: no slots" in ready
        eventually(lambda: pipe.is_caught_up(topic), "it has copied")
        status, metrics = get(f"{url}/metrics")
        assert status == 200 and f'k2k_slots{{pipeline="{pipe.name}"}}' in metrics
        first_process(container).terminate()
        out = "".join(lines) + finish(container)
    finally:
        container.kill()
        container.wait()
    assert container.returncode == 0 and termination_log(volume).read_text() == "", out
    assert pipe.prove(2000)


def _is_ready(url: str) -> str:
    try:
        status, text = get(f"{url}/readyz")
    except OSError:
        return ""  # it ends
    return text if status == 200 else ""


def test_nothing_of_it_is_left_mounted(image: Image) -> None:
    assert str(image.root) not in Path("/proc/mounts").read_text()
