"""Cases of the transcript: the file of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.commands.transcript import Typed, typed
from tests.unit.golden.cases.common import Cases


def config_validate(folder: Path) -> list[Typed]:
    """Valid; an unknown key; a wrong value; no YAML."""
    text = (folder / "orders.yaml").read_text()
    (folder / "key.yaml").write_text(text + "onSourceDataLos: fail\n")
    (folder / "value.yaml").write_text(text + "onSourceDataLoss: perhaps\n")
    (folder / "broken.yaml").write_text("name: [orders\n")
    return [
        typed("config validate -f orders.yaml"),
        typed("config validate -f orders.yaml --json"),
        *(typed(f"config validate -f {name}.yaml") for name in ("key", "value", "broken")),
    ]


def config_show(_: Path) -> list[Typed]:
    """The merged file, as YAML and JSON, and where values come from."""
    return [
        typed("config show -f orders.yaml"),
        typed("config show -f orders.yaml --json"),
        typed("config show -f orders.yaml --sources"),
    ]


def config_reverse(_: Path) -> list[Typed]:
    """The opposite pipeline's file."""
    return [typed("config reverse -f orders.yaml"), typed("config reverse -f orders.yaml --json")]


CASES: Mapping[str, Cases] = {
    "config validate": config_validate,
    "config show": config_show,
    "config reverse": config_reverse,
}
