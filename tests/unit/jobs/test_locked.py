"""What writes to the target for as long as it runs is refused like any other change."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.cli.main import cli
from k2ktui.errors import Refused
from tests.support.commands.cli import k2ktui
from tests.support.commands.in_process import invoke
from tests.support.jobs.jobs import write_pipeline

WRITING = [
    ("start",),
    ("jobs", "start"),
    ("sync", "--once"),
    ("mm2", "publish", "--once", "--source-alias", "A", "--target-alias", "B"),
]


def refused(*arguments: object) -> str:
    """Return what a command says that must be refused."""
    with pytest.raises(Refused) as raised:
        invoke(cli, *arguments)
    return str(raised.value)


@pytest.mark.parametrize("verb", WRITING, ids=lambda verb: " ".join(verb[:2]))
def test_a_pair_that_may_not_be_changed(verb: tuple[str, ...], tmp_path: Path) -> None:
    kept = write_pipeline(tmp_path / "kept.yaml", 1, readOnly="enabled")
    for more in ((), ("--unlock",)):
        reported = refused(*verb, "-f", kept, *more)
        assert "is refused: readOnly is enabled in the pipeline file" in reported
        assert "Nothing was changed" in reported
    production = write_pipeline(tmp_path / "production.yaml", 1, environment="production")
    reported = refused(*verb, "-f", production)
    assert "is refused: the environment is production" in reported
    assert "--unlock" in reported


@pytest.mark.slow
def test_production_starts_after_unlocking(tmp_path: Path) -> None:
    production = write_pipeline(tmp_path / "p.yaml", 1, environment="production")
    started = k2ktui("start", "-f", production, "--unlock", code=3)
    assert "no broker of the source cluster accepts connections" in started.stderr
