"""The file of the pipeline for the way back: written once, kept if it is another one."""

from __future__ import annotations

from pathlib import Path

import yaml

from k2ktui.config.reverse import reverse_file
from k2ktui.drill.files import reverse_path
from k2ktui.drill.phases.reverse import write_reverse

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
