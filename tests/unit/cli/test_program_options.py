"""Options of Lenses' programs: the termination log, and files whose templates are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2ktui.cli import start
from tests.support.commands.cli import k2ktui

PROGRAMS = ["start", "sync"]
FILE = """
name: p
source: {kafka: {common: {bootstrap.servers: "localhost:1", sasl.password: hunter2hunter2}}}
target: {kafka: {common: {bootstrap.servers: "localhost:2"}}}
features: {checkKafkaConnectionOnStartup: disabled}
replication: [{source: {topic: ["a"]}}]
nonsense: "${env:string:GIVEN}hunter2hunter2"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.yaml"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_error_that_ends_it_is_in_the_termination_log(
    program: str, file: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    said = k2ktui(program, "-f", file, "-l", log, "-w", "enabled", code=2, env={"GIVEN": "x"})
    reason = log.read_text()
    assert reason and " ".join(said.stderr.removeprefix("k2ktui: ").split()) == " ".join(
        reason.split()
    )
    assert "hunter2" not in reason and "\n" not in reason
    log.write_text("what was there " * 900)
    k2ktui(program, "-f", file, "-l", log, code=2, env={"GIVEN": "x"})
    assert log.read_text() == reason
    log.unlink()
    k2ktui(program, "-f", file, "-l", log, "-w", "disabled", code=2)
    assert not log.exists()


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_that_cannot_be_written_hides_nothing(program: str, file: Path, tmp_path: Path) -> None:
    said = k2ktui(program, "-f", file, "-l", tmp_path, code=2, env={"GIVEN": "x"})
    assert "nonsense" in said.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_templates_can_be_kept(program: str, file: Path) -> None:
    assert "GIVEN" in k2ktui(program, "-f", file, code=2).stderr
    assert "GIVEN" not in k2ktui(program, "-f", file, "-g", "disabled", code=2).stderr


def test_the_usual_log_is_written_only_where_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tmp_path / "termination-log"
    monkeypatch.setattr(start, "_DEFAULT", str(usual))

    def fail(*, options: start.ProgramOptions) -> None:
        raise KeyError("a" * 9000)

    program: Any = start.program_options(fail)
    given: dict[str, Any] = {"template_engine": "enabled", "termination_log_enabled": "enabled"}
    with pytest.raises(KeyError):
        program(termination_log=None, **given)
    assert not usual.exists()
    usual.touch()
    with pytest.raises(KeyError):
        program(termination_log=None, **given)
    assert "internal error in k2ktui (KeyError)" in usual.read_text()
