"""A plan does not choose where logins go: its pipeline file must be this user's, and unchanged."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from k2ktui.cli.changes import show_connections
from k2ktui.cli.groups import apply
from k2ktui.engine.moves.groups import CommittedOffset, GroupView
from k2ktui.engine.moves.plan import Plan, Rewind, dump_plan
from k2ktui.errors import Refused
from k2ktui.sync.moves.apply import Applier
from k2ktui.sync.moves.plan_files import digest_files
from tests.support.commands.in_process import Ended, invoke

PIPELINE = """
name: orders
source: {kafka: {common: {bootstrap.servers: "source:9092"}}}
target: {kafka: {common: {bootstrap.servers: "%s:9092"}}}
replication: [{source: {topic: orders}}, {sink: {topic: source, partition: source}}]
"""
FOREVER = 1e11


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline file in a folder of its own."""
    path = tmp_path / "pipelines" / "orders.yaml"
    path.parent.mkdir(mode=0o755)
    path.write_text(PIPELINE % "target")
    path.chmod(0o644)
    return path


def plan(*files: str, digest: str | None = None) -> Plan:
    """A plan without changes: it is shown, and nothing is asked."""
    digest = digest_files(files) if digest is None else digest
    return Plan("orders", "S", "T", 1.0, FOREVER, "me", Rewind.NEVER, (), files, digest)


def apply_plan(made: Plan, tmp_path: Path, *arguments: object) -> Ended:
    path = tmp_path / "plan.json"
    path.write_text(dump_plan(made))
    return invoke(apply, path, *arguments)


def test_an_unchanged_file_of_this_user_is_used(file: Path, tmp_path: Path) -> None:
    assert "Nothing to apply." in apply_plan(plan(str(file)), tmp_path).output


def test_addresses_are_shown_before_the_question(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from k2ktui.kafka.properties.translation import load_checked

    show_connections([str(file)], load_checked([str(file)]).config)
    notes = capsys.readouterr().err.splitlines()
    assert notes == [
        f"note: pipeline file (from the plan): {file}",
        "note: source: source:9092",
        "note: target: target:9092",
    ]


def refusal(made: Plan, tmp_path: Path) -> str:
    with pytest.raises(Refused) as refused:
        apply_plan(made, tmp_path)
    assert refused.value.unchanged == "Nothing was changed, and no login was sent."
    assert refused.value.hint == "Name the pipeline yourself: k2ktui apply -f FILE PLAN."
    return refused.value.message


def test_a_changed_file_is_refused(file: Path, tmp_path: Path) -> None:
    made = plan(str(file))
    file.write_text(PIPELINE % "elsewhere")
    assert refusal(made, tmp_path).endswith(f"{file} was changed after the plan was made")


def test_a_plan_without_a_digest_is_refused(file: Path, tmp_path: Path) -> None:
    assert "does not record the contents" in refusal(plan(str(file), digest=""), tmp_path)
    assert "it names no pipeline file" in refusal(plan(), tmp_path)


@pytest.mark.parametrize("digest", ["x", "zz:00", "00:", "00:00"])
def test_a_wrong_digest_is_refused(digest: str, file: Path, tmp_path: Path) -> None:
    assert refusal(plan(str(file), digest=digest), tmp_path)


@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "reason"),
    [
        (0o646, 0o755, "the file can be written by everybody"),
        (0o644, 0o777, "its folder can be written by everybody"),
        (0o644, 0o1777, "its folder can be written by everybody"),
    ],
)
def test_a_file_that_others_may_write_is_refused(
    file_mode: int, folder_mode: int, reason: str, file: Path, tmp_path: Path
) -> None:
    made = plan(str(file))
    file.chmod(file_mode)
    file.parent.chmod(folder_mode)
    assert refusal(made, tmp_path).endswith(f"is not safe: {reason}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_files_of_others_and_of_shared_groups_are_refused(file: Path, tmp_path: Path) -> None:
    made = plan(str(file))
    os.chown(file, 65534, -1)
    assert "belongs to another user" in refusal(made, tmp_path)
    os.chown(file, 0, 65534)
    file.chmod(0o664)
    assert "can be written by a group" in refusal(made, tmp_path)
    os.chown(file, 0, 0)  # root's own group, without other members
    assert "Nothing to apply." in apply_plan(made, tmp_path).output


def test_a_link_from_a_folder_that_others_may_write_is_refused(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "shared" / "orders.yaml"
    link.parent.mkdir()
    link.parent.chmod(0o777)
    link.symlink_to(file)
    assert "its folder can be written" in refusal(plan(str(link)), tmp_path)


def test_a_pipe_cannot_be_chosen_by_a_plan(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert digest_files([str(tmp_path / "pipe")]) == ""
    assert "is not a regular file" in refusal(
        plan(str(tmp_path / "pipe"), digest="00:00"), tmp_path
    )
    assert "cannot be looked at" in refusal(plan(str(tmp_path / "gone"), digest="00:00"), tmp_path)


def test_files_that_the_operator_names_are_used_as_they_are(file: Path, tmp_path: Path) -> None:
    made = plan(str(tmp_path / "gone"), digest="00:00")
    file.chmod(0o666)
    assert "Nothing to apply." in apply_plan(made, tmp_path, "-f", file).output


def test_equal_files_have_digests_of_their_own_salt(file: Path) -> None:
    """Or a table of passwords would fit the plans of all pipelines."""
    assert digest_files([str(file)]) != digest_files([str(file)])


@pytest.mark.parametrize(
    ("now", "deleted"),
    [
        (GroupView("Empty", 0), ["billing"]),
        (GroupView("Empty", 0, {("orders", 0): CommittedOffset(5)}), []),
        (GroupView("", None, error="it cannot be read"), []),
        (None, []),
    ],
)
def test_a_group_that_has_committed_again_is_not_deleted(
    now: GroupView | None, deleted: list[str]
) -> None:
    asked: list[str] = []

    def delete(names: list[str]) -> dict[str, str]:
        asked.extend(names)
        return {}

    groups = SimpleNamespace(delete=delete)
    target = SimpleNamespace(views=lambda _: {} if now is None else {"billing": now}, groups=groups)
    applier = object.__new__(Applier)
    applier._target = target  # type: ignore[assignment]
    applier._delete_empty("billing")
    assert asked == deleted
