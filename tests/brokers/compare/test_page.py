"""The commands of docs/compare.md do what the page says, one after the other."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, produce, unique_name
from tests.support.pipelines.copied import Copied

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "compare.md"
COMMANDS = re.search(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_every_command_of_the_page_runs(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    copied = Copied(tmp_path, source, target, prior=0)
    topic = create_topic(source, unique_name("orders"))
    produce(source, topic, [Out(b"%d" % n, b"k") for n in range(50)])
    copied.copy(topic)
    copied.file.rename(tmp_path / "pipeline.yaml")
    assert COMMANDS is not None
    lines = COMMANDS[1].splitlines()
    assert len(lines) == 5
    for line in lines:
        program, *arguments = shlex.split(line, comments=True)
        assert program == "k2ktui"
        done = subprocess.run(
            [sys.executable, "-m", program, *arguments],
            cwd=tmp_path,
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["counts"] == {"equal": 50} and (tmp_path / "report.md").exists()
