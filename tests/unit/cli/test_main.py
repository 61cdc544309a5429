"""The command line itself: what it says without a command, and to shells; what it loads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands.verbs import k2ktui

PROGRAM = Path(sys.executable).with_name("k2ktui")


def test_without_a_command_it_names_the_first_steps() -> None:
    said = k2ktui()
    assert said.code == 0
    assert "k2ktui demo" in said.out and "k2ktui -f pipeline.yaml" in said.out


@pytest.mark.parametrize(("words", "meant"), [("mm2 audti", "audit"), ("parity aply", "apply")])
def test_a_mistyped_command_is_answered_by_any_version_of_click(words: str, meant: str) -> None:
    said = k2ktui(*words.split())
    assert said.code == 2
    assert f"No such command '{words.split()[-1]}'. Did you mean {meant}?" in said.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_for_its_shell(shell: str) -> None:
    said = k2ktui("completion", shell)
    assert said.code == 0, said.err
    assert f"_K2KTUI_COMPLETE={shell}_complete" in said.out
    assert shutil.which(shell) is None or parses(shell, said.out)


def parses(shell: str, script: str) -> bool:
    done = subprocess.run([shell, "-n"], input=script, text=True, check=False)
    return done.returncode == 0


def test_bash_completes_commands_and_options() -> None:
    """As the script asks: with the words so far, and the number of the word at the cursor."""

    def answers(words: str, at: int) -> set[tuple[str, str]]:
        asked = {"_K2KTUI_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
        done = subprocess.run(
            [PROGRAM], env={**os.environ, **asked}, capture_output=True, text=True, check=False
        )
        return {(kind, word) for kind, _, word in (x.partition(",") for x in done.stdout.split())}

    def completed(words: str, at: int) -> set[str]:
        return {word for _, word in answers(words, at)}

    def kinds(words: str, at: int) -> set[str]:
        return {kind for kind, _ in answers(words, at)}

    assert completed("k2ktui sta", 1) == {"start", "status"}
    assert completed("k2ktui jobs st", 2) >= {"start", "stop"}
    assert "--json" in completed("k2ktui groups --", 2)
    # Bash itself completes the name: it knows spaces, quotes and ~.
    for words, at in (
        ("k2ktui -f pi", 2),
        ("k2ktui --replay to", 2),
        ("k2ktui groups -f pi", 3),
        ("k2ktui jobs start -f pi", 4),
        ("k2ktui drill planned -f pi", 4),
        ("k2ktui plan -o pl", 3),
        ("k2ktui apply pl", 2),
        ("k2ktui parity apply pa", 3),
    ):
        assert completed(words, at) == {words.split()[at]}, words
        assert kinds(words, at) == {"file"}, words


CLIENTS = {"kafka", "confluent_kafka", "pyspark", "textual", "k2ktui.replication.preflight"}


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["jobs", "list"], CLIENTS),
        (["status", "--help"], {*CLIENTS, "k2ktui.sync", "k2ktui.cli.groups"}),
        (["config", "schema"], {*CLIENTS, "k2ktui.sync", "numpy", "rich"}),
        (["mm2", "import", "--help"], {"confluent_kafka", "pyspark", "numpy", "rich"}),
        (["watch", "--help"], {*CLIENTS, "k2ktui.sync", "numpy", "rich"}),
        (["plan", "--help"], {*CLIENTS, "k2ktui.starting", "rich"}),
        (["--version"], {*CLIENTS, "k2ktui.sync", "k2ktui.cli.views", "numpy", "rich"}),
    ],
)
def test_what_is_called_often_loads_no_client_library_and_no_check(
    words: list[str], heavy: set[str], tmp_path: Path
) -> None:
    """An operator, and a prompt or a script, lists jobs often; no cluster is contacted."""
    script = (
        f"import sys; from k2ktui.cli.main import cli; cli({words}, standalone_mode=False);"
        f"print({heavy} & set(sys.modules))"
    )
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env)
    assert done.stdout.splitlines()[-1:] == ["set()"], done.stdout + done.stderr


@pytest.mark.parametrize("words", [["drill", "rehearse"], ["drill", "check"], ["drill", "list"]])
def test_help_of_drills_loads_no_check(words: list[str]) -> None:
    """The catalog is what the checks register: whoever needs it loads them and their clients."""
    script = (
        "import sys, k2ktui.present.drills; from k2ktui.cli.main import cli;"
        f"cli([*{words}, '--help'], standalone_mode=False);"
        "print({'confluent_kafka', 'k2ktui.drill.checks'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["set()"], done.stdout + done.stderr


def test_the_console_reads_the_clusters_before_it_loads_textual(tmp_path: Path) -> None:
    """The clusters answer while it does, so that its first figures come sooner."""
    file = tmp_path / "pipeline.yaml"
    nowhere = "kafka: {common: {bootstrap.servers: 127.0.0.1:1}}"
    file.write_text(
        f"name: quick\nsource:\n  {nowhere}\ntarget:\n  {nowhere}\n"
        "replication:\n- source: {topic: [orders]}\n- sink: {topic: source, partition: source}\n"
    )
    script = (
        "import sys; from k2ktui.cli.console import ConsoleArguments, run\n"
        "from k2ktui.console import terminal; from k2ktui.watch.poller import Poller\n"
        "terminal.check = lambda: None\n"
        "Poller.begin = lambda feed: sys.exit(f'loaded: {\"textual\" in sys.modules}')\n"
        f"run(ConsoleArguments(files=({str(file)!r},)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1:] == ["loaded: False"], done.stderr


def test_without_a_name_the_users_own_directory_of_pipelines_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/fleet.md: of ``~/.config/k2ktui/pipelines``, and not of directories below it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert "k2ktui demo" in k2ktui().out
    own = tmp_path / ".config/k2ktui/pipelines"
    (own / "old").mkdir(parents=True)
    (own / "typo.yaml").write_text("name: typo\nsorce: {}\n")
    (own / "old" / "other.yaml").write_text("name: other\nsorce: {}\n")
    for command in (("fleet",), ("watch", "--once")):
        said = k2ktui(*command)
        assert said.code == 1 and "typo" in said.out and "other" not in said.out, said.err
    said = k2ktui("--read-only")
    assert said.code == 2 and "terminal" in said.err, "the console opens on it where there is one"
