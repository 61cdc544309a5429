"""``k2ktui bug-report``: what is in the archive, without secrets, also where much is broken."""

from __future__ import annotations

import stat
import tarfile
from pathlib import Path

import pytest

from k2ktui import diagnostics
from k2ktui.faults import fault
from k2ktui.jobs.job_directory import job_directory
from k2ktui.jobs.manager import new_record
from k2ktui.kafka.properties.translation import load_checked
from tests.support.commands.verbs import k2ktui
from tests.support.jobs.jobs import write_pipeline

SECRET = "hunter2-3cr3t"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv(diagnostics.VARIABLE, raising=False)
    return tmp_path / "state" / "k2ktui"


def contents(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as opened:
        files = {member.name: opened.extractfile(member) for member in opened.getmembers()}
        return {
            name.partition("/")[2]: file.read().decode() for name, file in files.items() if file
        }


def write_config(tmp_path: Path) -> Path:
    write_pipeline(tmp_path / "pipeline.yaml", 1)
    more = tmp_path / "more.yaml"
    more.write_text(
        "source: {kafka: {common: {sasl.mechanism: PLAIN, security.protocol: SASL_PLAINTEXT,\n"
        "  sasl.jaas.config: 'org.apache.kafka.common.security.plain.PlainLoginModule required"
        f' username="ann" password="{SECRET}";\'}}}}}}\n'
    )
    return more


def test_everything_without_secrets(state: Path, tmp_path: Path) -> None:
    more = write_config(tmp_path)
    files = ("-f", tmp_path / "pipeline.yaml", "-f", more)
    k2ktui("--debug", "config", "validate", *files)
    with (next((state / "log").glob("*.log"))).open("a") as log:
        log.write(f"Authorization: Bearer {SECRET}\nsasl.password={SECRET}\n")
    fault(RuntimeError("x"))
    config = load_checked([tmp_path / "pipeline.yaml", more]).config
    place = job_directory(config)
    place.make()
    paths = tuple(str(path) for path in (tmp_path / "pipeline.yaml", more))
    place.write(new_record(place, config, paths, "", telemetry=False))
    place.log.write_text(
        '{"event": "note", "at": 1.0, "text": "a note"}\n'
        f'{{"event": "note", "at": 2.0, "text": "sasl.password={SECRET}"}}\n'
    )
    archive = tmp_path / "report.tar.gz"
    said = k2ktui("bug-report", *files, "-o", archive)
    assert said.code == 0 and said.out.strip() == str(archive)
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    collected = contents(archive)
    assert set(collected) == {
        *("versions.txt", "configuration.yaml", "log.txt", "crashes.txt", "job.jsonl"),
        "check.json",
    }
    assert (
        "k2ktui 0." in collected["versions.txt"] and "confluent-kafka " in collected["versions.txt"]
    )
    assert "bootstrap.servers" in collected["configuration.yaml"]
    assert "config validate" in collected["log.txt"] and "<redacted>" in collected["log.txt"]
    assert "\nRuntimeError\n" in collected["crashes.txt"]  # without its text, which is not ours
    assert (
        "a note" in collected["job.jsonl"] and "sasl.password=<redacted>" in collected["job.jsonl"]
    )
    assert '"exit_code": 3' in collected["check.json"], "the clusters do not answer: in the report"
    assert not any(SECRET in text for text in collected.values())
    again = k2ktui("bug-report", *files, "-o", archive)
    assert again.code == 2 and "already exists" in again.err


@pytest.mark.parametrize(
    "text", ["name: [", f"nme: x\nsource: {{kafka: {{common: {{sasl.password: {SECRET}}}}}}}", None]
)
def test_a_configuration_that_does_not_load(state: Path, tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "pipeline.yaml"
    if text is not None:
        file.write_text(text)
    said = k2ktui("bug-report", "-f", file, "-o", tmp_path / "a.tar.gz")
    files = contents(tmp_path / "a.tar.gz")
    assert said.code == 0 and "pipeline.yaml" in files["configuration.yaml"]
    assert files["configuration.yaml"].startswith("not collected: ")
    assert "Python 3" in files["versions.txt"] and "2" in files["check.json"]
    assert not any(SECRET in part for part in files.values())


def test_without_a_file(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = k2ktui("bug-report")
    (archive,) = tmp_path.glob("k2ktui-bug-report-*.tar.gz")
    assert said.code == 0 and said.out.strip() == archive.name
    files = contents(archive)
    assert "no -f" in files["configuration.yaml"] and "there is no log" in files["log.txt"]
    assert "there are none" in files["crashes.txt"]


def test_clusters_are_left_alone(state: Path, tmp_path: Path) -> None:
    write_config(tmp_path)
    k2ktui("bug-report", "-f", tmp_path / "pipeline.yaml", "--no-check", "-o", tmp_path / "a.tgz")
    assert (
        contents(tmp_path / "a.tgz")["check.json"] == "not collected: not asked for: --no-check\n"
    )


def test_an_archive_that_cannot_be_written(state: Path, tmp_path: Path) -> None:
    said = k2ktui("bug-report", "-o", tmp_path / "none" / "a.tar.gz")
    assert said.code == 2 and "cannot be written" in said.err
