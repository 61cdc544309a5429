"""The file of the pipeline for the way back: written once, kept if it is another one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import yaml

from k2ktui.config.reverse import reverse_file
from k2ktui.drill.files import reverse_path, way_back_command
from k2ktui.drill.phases.reverse import write_reverse
from k2ktui.drill.topics import name_targets
from k2ktui.kafka.properties.translation import load_checked

PIPELINE = {
    "name": "orders",
    "source": {"kafka": {"common": {"bootstrap.servers": "a:1"}}},
    "target": {"kafka": {"common": {"bootstrap.servers": "b:2"}}},
    "replication": [
        {"source": {"topic": ["t"]}},
        {"sink": {"topic": "source", "partition": "source"}},
    ],
}


def test_the_file_is_beside_the_first_of_the_pipeline() -> None:
    assert reverse_path(["/etc/k/orders.yaml,/etc/k/more.yaml"]) == Path(
        "/etc/k/orders-reverse.yaml"
    )


def test_the_way_back_of_some_topics_names_them_on_the_target(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    tree = PIPELINE | {
        "replication": [
            {"source": {"topic": ["t.*"]}},
            {"sink": {"topic": {"prefix": "dc1."}, "partition": "source"}},
        ]
    }
    file.write_text(yaml.safe_dump(tree))
    targets = name_targets(load_checked((str(file),)).config, ["t1", "t.2"])
    command = way_back_command([str(file)], written=True, targets=targets)
    words = shlex.split(command.partition(" && ")[2])
    assert words[:3] == ["k2ktui", "drill", "failback"]
    assert re.fullmatch(words[words.index("--topics") + 1], "dc1.t1")
    assert not re.fullmatch(words[-1], "dc1xt1") and re.fullmatch(words[-1], "dc1.t.2")
    assert "--topics" not in way_back_command([str(file)], written=True)


def test_a_file_is_written_once_and_another_one_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(yaml.safe_dump(PIPELINE))
    reversal = reverse_file([str(file)])
    path = reverse_path([str(file)])
    assert write_reverse(path, reversal) and write_reverse(path, reversal)
    assert yaml.safe_load(path.read_text())["source"]["kafka"]["common"] == {
        "bootstrap.servers": "b:2"
    }
    assert path.stat().st_mode & 0o077 == 0
    path.write_text("name: mine\n")
    assert not write_reverse(path, reversal)
    assert path.read_text() == "name: mine\n"
