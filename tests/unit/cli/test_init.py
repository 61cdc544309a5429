"""``k2ktui init``: what it asks, what it never writes, and how it ends; the texts are golden."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from k2ktui.cli import changes
from k2ktui.cli.console import ConsoleArguments, run
from k2ktui.cli.init import offer_first
from k2ktui.config.load import load
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.cluster_pair import Side
from k2ktui.engine.records.run_record import Run
from k2ktui.errors import ConfigError, LoginFailed, Refused
from k2ktui.replication.ownership.commit_state import CommitState
from k2ktui.replication.preflight.clusters import ClusterReadings
from k2ktui.replication.preflight.survey import ClusterSurvey, has_pipeline
from tests.support.commands.in_process import ProgramRun, run_program
from tests.support.commands.transcript import answering
from tests.support.pipelines.preflight import pipeline, plain
from tests.support.pipelines.surveys import answers, surveyed

LOGIN = "SASL_PLAINTEXT\nPLAIN\nops\nOPS_PASSWORD\n"
REST = "dst:9092\nPLAINTEXT\n1\nnew.yaml\ny\n"
SECRET = "not-to-be-seen"
MM2 = """clusters=A,B
A.bootstrap.servers=a:9092
B.bootstrap.servers=b:9092
A->B.enabled=true
A->B.topics=clicks
"""


@pytest.fixture(autouse=True)
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person at a terminal, in an empty directory; both clusters answer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(changes, "can_ask", lambda: True)
    monkeypatch.delenv("OPS_PASSWORD", raising=False)
    replace(monkeypatch, answers())


def replace(patch: pytest.MonkeyPatch, given: Mapping[str, Any]) -> None:
    for name, answer in given.items():
        patch.setattr(name, answering(answer))


def init(typed: str, words: str = "") -> ProgramRun:
    return run_program(["init", *words.split()], typed)


def reading_passwords(right: str) -> tuple[list[str], Callable[..., ClusterSurvey]]:
    """Return the logins that the source has seen, and a source that takes one password."""
    seen: list[str] = []

    def survey(config: PipelineConfig, side: Side) -> ClusterSurvey:
        line = config.source.kafka.common.get("sasl.jaas.config", "")
        if side == "source":
            seen.append(line)
            if right not in line:
                raise LoginFailed("the source cluster rejected the login")
        return surveyed()(config, side)

    return seen, survey


def test_a_password_is_typed_for_this_reading_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in no file and no output, and gone afterwards; a wrong one is asked for again."""
    seen, survey = reading_passwords(SECRET)
    replace(monkeypatch, answers(survey))
    done = init(f"src:9092\n{LOGIN}wrong-one\n\n\n\n\n\n{SECRET}\n{REST}")
    assert done.error is None and done.code == 0, done.stderr
    assert ["wrong-one" in line for line in seen] == [True, False]
    text = Path("new.yaml").read_text()
    assert 'password=\\"${env:string:OPS_PASSWORD}\\"' in text
    for secret in (SECRET, "wrong-one"):
        assert secret not in text + done.stdout + done.stderr
    assert "OPS_PASSWORD" not in os.environ
    assert "note: export OPS_PASSWORD wherever the pipeline is checked or started" in done.stderr


def test_a_variable_that_is_set_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, survey = reading_passwords(SECRET)
    replace(monkeypatch, answers(survey))
    monkeypatch.setenv("OPS_PASSWORD", SECRET)
    done = init(f"src:9092\n{LOGIN}{REST}")
    assert done.error is None and "is not set" not in done.stderr and "export" not in done.stderr
    assert len(seen) == 1 and os.environ["OPS_PASSWORD"] == SECRET


@pytest.mark.parametrize("value", ['quo"te', "back\\slash"])
def test_a_password_that_would_end_its_quotes_is_refused(value: str) -> None:
    done = init(f"src:9092\n{LOGIN}{value}\n")
    assert "the value of OPS_PASSWORD has a" in done.stderr and value not in done.stderr
    assert isinstance(done.error, click.Abort), "it asks again, and nobody answers"


def test_a_file_with_such_a_password_is_refused(tmp_path: Path) -> None:
    (tmp_path / "password").write_text('quo"te\n')
    done = init("src:9092\nSASL_PLAINTEXT\nPLAIN\nops\n./password\n")
    assert './password has a "' in done.stderr and "quo" not in done.stderr


@pytest.mark.parametrize("password", ["Pa$$w0rd!", "w0rd", "base/w0rd=="])
def test_a_password_in_place_of_a_variable_is_not_shown(password: str) -> None:
    """Nor is it taken for a variable, whose name would stand in the file."""
    done = init(f"src:9092\nSASL_PLAINTEXT\nPLAIN\nops\n{password}\n")
    assert "expected the name of a variable" in done.stderr
    shown = [line for line in done.stderr.splitlines() if line.startswith("Error")]
    assert not any("w0rd" in line for line in shown)


def test_a_variable_of_small_letters_is_taken_if_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ops_password", SECRET)
    done = init(f"src:9092\n{LOGIN.replace('OPS_PASSWORD', 'ops_password')}{REST}")
    assert done.error is None and "${env:string:ops_password}" in Path("new.yaml").read_text()


ANSWERS = ["src:9092", "", "dst:9092", "", "1", "new.yaml"]


@pytest.mark.parametrize("count", range(len(ANSWERS) + 1))
def test_what_ends_before_the_last_answer_writes_nothing(count: int, tmp_path: Path) -> None:
    """Ctrl-C and the end of the input are the same to Click."""
    done = init("".join(f"{answer}\n" for answer in ANSWERS[:count]))
    assert isinstance(done.error, click.Abort)
    assert not list(tmp_path.iterdir())


def test_a_key_of_the_terminal_is_no_answer() -> None:
    done = init(f"src:9092\x1b[D\nsrc:9092\n\n{REST}")
    assert done.error is None and "expected characters that can be printed" in done.stderr


def test_a_name_that_the_target_has_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second pipeline of one name would go on at the first one's positions."""

    def is_old(config: PipelineConfig) -> bool:
        return config.name == "old"

    replace(monkeypatch, {"k2ktui.replication.preflight.survey.has_pipeline": is_old})
    done = init("src:9092\n\n" + REST.replace("new", "old.yaml\nnew"))
    assert done.error is None and "the target has a pipeline old already" in done.stderr
    done = init("", "--source src:9092 --target dst:9092 --yes -o old.yaml")
    assert done.error is not None and getattr(done.error, "exit_code", 0) == 5
    assert not Path("old.yaml").exists()
    replace(monkeypatch, {"k2ktui.replication.preflight.survey.has_pipeline": True})
    Path("mm2.properties").write_text(MM2)
    done = init("", "--from mm2.properties")
    assert "the target has a pipeline A-to-B already" in str(done.error), "no file is asked for"


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        (None, False),
        (CommitState(Run(0, 0), {}), False),
        (CommitState(Run(1, 0), {}), True),
        (Refused("no right to read the commit topic"), False),
    ],
)
def test_a_name_is_known_once_a_run_has_begun(
    answer: Any, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClusterReadings, "commit_state", answering(answer))
    config = pipeline(plain("src:9092"), plain("dst:9092"), "clicks")
    assert has_pipeline(config) is known


def test_who_confirms_beside_json_sees_the_file() -> None:
    done = init(f"src:9092\n\n{REST}", "--json")
    assert done.error is None and "bootstrap.servers" in done.stderr
    assert json.loads(done.stdout)["text"] == Path("new.yaml").read_text()


def test_copies_with_other_names_are_looked_for_by_these() -> None:
    Path("mm2.properties").write_text(MM2)
    done = init("", "--from mm2.properties --yes")
    assert done.error is None and "It copies 1 topic: clicks" in done.stdout
    assert "the target has" not in done.stderr, "it has clicks, and the copy is A.clicks"


def test_a_directory_that_is_missing_is_known_before_the_end() -> None:
    done = init("src:9092\n\n" + REST.replace("new", "missing/new.yaml\nnew"))
    assert done.error is None and "missing/new.yaml cannot be written: No such" in done.stderr


def test_a_refused_file_is_not_written(tmp_path: Path) -> None:
    done = init("".join(f"{answer}\n" for answer in [*ANSWERS, "n"]))
    assert done.error is not None and not isinstance(done.error, click.ClickException)
    assert not list(tmp_path.iterdir())


def test_the_same_cluster_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two addresses of one cluster: a person gives another one, a script ends with 5."""

    def survey(config: PipelineConfig, side: Side) -> ClusterSurvey:
        is_same = config.target.bootstrap_servers == "also-src:9092"
        return surveyed(ids=("A", "A" if is_same else "B"))(config, side)

    replace(monkeypatch, answers(survey))
    done = init(f"src:9092\n\nalso-src:9092\n\n{REST}")
    assert done.code == 0 and "also-src:9092 is the source cluster, too" in done.stderr
    done = init("", "--source src:9092 --target also-src:9092 --topics .* --yes -o x.yaml")
    assert done.error is not None and getattr(done.error, "exit_code", 0) == 5
    assert not Path("x.yaml").exists()


def test_only_what_no_option_answers_is_asked() -> None:
    words = "--source src:9092 --source-config c.properties --topics clicks -o new.yaml"
    done = init("dst:9092\n\ny\n", words)
    assert isinstance(done.error, ConfigError) and "c.properties is no file" in str(done.error)
    Path("c.properties").write_text("client.dns.lookup=use_all_dns_ips\n")
    done = init("dst:9092\n\ny\n", words)
    assert done.error is None, done.error
    assert "Source cluster, bootstrap" not in done.stderr and "Numbers" not in done.stderr
    config = load(["new.yaml"]).config
    assert config.source.kafka.common["client.dns.lookup"] == "use_all_dns_ips"
    assert config.topics.matches("clicks") and not config.topics.matches("payments")


def test_hostile_names_are_chosen_by_number_and_shown_safely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hostile = 'x": {}\x1b[2J'
    replace(monkeypatch, answers(surveyed({"clicks": 1, hostile: 1})))
    done = init("src:9092\n\ndst:9092\n\n3\nnew.yaml\ny\n")
    assert done.error is None and "\x1b" not in done.stdout + done.stderr
    topics = load(["new.yaml"]).config.topics
    assert topics.matches(hostile) and not topics.matches("clicks")


def test_an_unset_variable_of_a_script_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "can_ask", lambda: False)
    Path("c.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=${env:string:OPS_PASSWORD}\n"
    )
    done = init("", "--source src:9092 --source-config c.properties --target dst:9092 --yes")
    assert isinstance(done.error, ConfigError)
    assert done.error.message == "the environment variable OPS_PASSWORD is not set"
    assert not Path("src-to-dst.yaml").exists()


def test_the_first_pipeline_of_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes there, whatever directory is typed; what was typed is known to the console."""
    folder = tmp_path / "pipelines"
    folder.mkdir()
    typed = iter(["y", "src:9092", *LOGIN.split(), SECRET, "dst:9092", "PLAINTEXT", "1",
                  "/elsewhere/first.yaml", "y", ""])  # fmt: skip

    def prompt(text: str, **given: Any) -> Any:
        convert = given.get("value_proc") or str
        return convert(next(typed))

    monkeypatch.setattr(click, "prompt", prompt)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: next(typed) == "y")
    try:
        assert offer_first(folder) == folder / "first.yaml"
        assert os.environ["OPS_PASSWORD"] == SECRET
    finally:
        os.environ.pop("OPS_PASSWORD", None)
    assert load([folder / "first.yaml"], env={"OPS_PASSWORD": "x"}).config.name == "first"
    monkeypatch.setattr(click, "confirm", lambda *_, **__: False)
    assert offer_first(folder) is None


def test_the_console_opens_the_first_pipeline_and_comes_back_to_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offer(directory: Path) -> Path | None:
        if not (tmp_path / "wanted").exists():
            return None
        file = directory / "first.yaml"
        file.write_text("name: first\nsorce: {}\n")
        return file

    shown: list[object] = []

    def session(given: ConsoleArguments) -> Any:
        shown.append(given.files)
        raise ConfigError("it is not read in this test")

    def open_console(session: Any) -> int:
        shown.append(session.notes)
        return 1

    folder = tmp_path / "pipelines"
    folder.mkdir()
    replace(monkeypatch, {
        "k2ktui.console.terminal.check": None,
        "k2ktui.console.terminal.prepare": lambda theme: theme,
        "k2ktui.cli.init.offer_first": offer,
        "k2ktui.cli.console._session": session,
        "k2ktui.console.app.open_console": open_console,
    })  # fmt: skip
    with pytest.raises(ConfigError, match="has no pipeline file"):
        run(ConsoleArguments(directory=str(folder)))
    (tmp_path / "wanted").touch()
    assert run(ConsoleArguments(directory=str(folder))) == 0
    assert shown == [(str(folder / "first.yaml"),), ("it is not read in this test",)]
