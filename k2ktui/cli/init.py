"""``k2ktui init``: a pipeline's file from questions, each of which an option can answer."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from k2ktui.cli import changes
from k2ktui.cli.check import check_text, print_result, printable, run_every_check
from k2ktui.cli.init_clusters import Clusters, Draft, explain, prompt
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import require_new, write_new
from k2ktui.cli.terminal.notes import print_note, print_notes
from k2ktui.cli.terminal.tables import print_json
from k2ktui.config.clusters import BOOTSTRAP
from k2ktui.config.new_file import (
    ALL_TOPICS,
    NewPipeline,
    name_of_file,
    propose_name,
    propose_topics,
)
from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.errors import ConfigError, Declined, K2kError, LoginFailed, Refused
from k2ktui.text import counted, first_names, safe_message, safe_text

_SUFFIXES = (".yaml", ".yml")
_MOST_PATTERNS = 15


@dataclass(frozen=True, slots=True)
class Given:
    """The options of ``init``: answers to its questions, "" for those that it asks.

    ``mirror`` is a file of MirrorMaker 2, instead of clusters and topics. ``yes`` takes proposals.
    """

    source: str = ""
    target: str = ""
    source_config: str = ""
    target_config: str = ""
    topics: str = ""
    mirror: str = ""
    output: str = ""
    yes: bool = False
    as_json: bool = False


@click.command(
    short_help="Write a pipeline file, from questions.",
    help="Ask for two clusters and topics, read both, write a pipeline file, and check it. "
    "Every answer is also an option.",
)
@options.value("--source", "HOST:PORT,…", "Bootstrap servers of the source.", default="")
@options.value("--target", "HOST:PORT,…", "Bootstrap servers of the target.", default="")
@options.value(
    "--source-config",
    "FILE",
    "Client properties of the source, as for --command-config of Kafka's tools; secrets stay "
    "in that file.",
    default="",
)
@options.value("--target-config", "FILE", "The same of the target.", default="")
@options.value("--topics", "REGEX", "Topics to copy; the whole name must match.", default="")
@options.value(
    "--from mirror",
    "FILE[#A->B]",
    "MirrorMaker 2's file to convert, as k2ktui mm2 import does.",
    default="",
)
@options.value("-o --output", "FILE", "Pipeline file to write; it must not exist.", default="")
@options.flag("--yes", "Take the proposal wherever no option answers, and write without asking.")
@options.json
def init(**answers: Any) -> int:
    """Ask, read, write and check; return the exit code of the checks."""
    given, draft = Given(**answers), Draft(answers["as_json"])
    try:
        return _check(set_up(given, draft), draft, given)
    finally:
        draft.forget()


def offer_first(directory: Path) -> Path | None:
    """Offer to set up the first pipeline of a directory; return its file, None if declined.

    What was typed stays known to this process, which opens the pipeline.
    """
    question = f"{safe_text(directory)} has no pipeline file yet. Set one up now?"
    if not (changes.can_ask() and click.confirm(question, default=True, err=True)):
        return None
    given, draft = Given(), Draft(as_json=False)
    file = set_up(given, draft, directory)
    _check(file, draft, given)
    click.prompt("Enter opens the console", default="", show_default=False, err=True)
    return file


def set_up(given: Given, draft: Draft, directory: Path | None = None) -> Path:
    """Ask for what the options do not say, and write the file; return its name.

    Args:
        given: the options.
        draft: becomes what was written.
        directory: where the file belongs; None for wherever its name says.

    Raises:
        K2kError: nothing was written, and the error says so.
    """
    try:
        file = _draft_file(given, draft, directory)
        write_new(file, draft.text)
    except K2kError as error:
        error.unchanged = error.unchanged or "Nothing was written."
        raise
    return file


def _draft_file(given: Given, draft: Draft, directory: Path | None) -> Path:
    _require_answers(given)
    pipeline = None if given.mirror else _ask_for_pipeline(given, draft)
    name = pipeline.name if pipeline else _import(given, draft)

    def accept(answer: str) -> str:
        file = _new_file(answer if directory is None else str(directory / Path(answer).name))
        if pipeline:
            draft.text = replace(pipeline, name=name_of_file(file.stem)).text
            draft.require_new()
        return str(file)

    proposal = f"{name}.yaml"
    if given.output or given.yes:
        file = Path(accept(given.output or proposal))
    else:
        question = "File to write" + ("; its name is also the pipeline's" if pipeline else "")
        file = Path(prompt(question, proposal, accept))
    _show(draft, given)
    if not (given.yes or click.confirm(f"Write {safe_text(file)}?", default=True, err=True)):
        raise Declined("the file was not wanted")
    return file


def _require_answers(given: Given) -> None:
    """Refuse options that contradict each other, and missing ones where nobody can be asked.

    Raises:
        ConfigError: names them.
        Refused: the file exists.
    """
    asked = (given.source, given.target, given.source_config, given.target_config, given.topics)
    if given.mirror and any(asked):
        raise ConfigError(
            "--from takes clusters, logins and topics from its file",
            hint="Give --from with -o and --yes only, and edit the file that it writes.",
        )
    try:
        compile_pattern(given.topics)
    except ValueError as error:
        raise ConfigError(
            f"--topics: expected {safe_message(error)}",
            hint="Names without special characters match themselves; | stands between them.",
        ) from error
    answers = {
        "--source": given.mirror or given.source or given.source_config,
        "--target": given.mirror or given.target or given.target_config,
        "--topics": given.mirror or given.topics or given.yes,
        "-o": given.output or given.yes,
        "--yes": given.yes,
    }
    missing = [option for option, answer in answers.items() if not answer]
    if missing and not changes.can_ask():
        raise ConfigError(
            f"standard input is not a terminal to ask for {', '.join(missing)}",
            hint="Give these options. --yes alone stands for all topics, and for a file in this "
            "directory that is called after the addresses.",
        )
    if given.output:
        _new_file(given.output)


def _new_file(name: str) -> Path:
    """Return a new file.

    Raises:
        Refused: it exists.
        ConfigError: it cannot be written, or cannot be a pipeline's file.
    """
    path = Path(name).expanduser()
    if path.suffix not in _SUFFIXES or "," in str(path):
        raise ConfigError(
            f"{safe_text(name)} is no name for a pipeline file",
            hint="Give one that ends in .yaml and has no comma.",
        )
    require_new(path)
    return path


def _import(given: Given, draft: Draft) -> str:
    """Take the pipeline from MirrorMaker 2's file, and read both clusters; return its name."""
    from k2ktui.mm2.importing.pipeline_file import import_file

    imported = import_file(given.mirror)
    draft.text, draft.notes = imported.text, list(imported.notes)
    while True:
        draft.type_variables(draft.text)
        try:
            for side in ("source", "target"):
                draft.survey(side)
            return draft.require_new()
        except LoginFailed as error:
            if not draft.typed:
                raise
            explain(error)
            draft.forget()


def _ask_for_pipeline(given: Given, draft: Draft) -> NewPipeline:
    """Ask for both clusters, reading each at once, and for topics of the source."""
    clusters = Clusters(draft, given.yes)
    source = clusters.ask("source", given.source, given.source_config)
    target = clusters.ask("target", given.target, given.target_config, source)
    pipeline = NewPipeline(propose_name(source[BOOTSTRAP], target[BOOTSTRAP]), source, target)
    topics = given.topics or (ALL_TOPICS if given.yes else _ask_for_topics(draft, pipeline))
    return replace(pipeline, topics=topics)


def _ask_for_topics(draft: Draft, pipeline: NewPipeline) -> str:
    """Return a regular expression for topics, of those that the source has."""
    names = draft.surveys["source"].topics
    offers = propose_topics(names, _MOST_PATTERNS)
    numbered = {str(number): pattern for number, (pattern, _) in enumerate(offers, 1)}
    click.echo("Topics to copy:", err=True)
    for number, (pattern, count) in zip(numbered, offers, strict=True):
        all_of_them = " (all)" if pattern == ALL_TOPICS else ""
        line = f"{number:>4}  {counted(count, 'topic'):>12}  {safe_text(pattern)}{all_of_them}"
        click.echo(line, err=True)

    def accept(answer: str) -> str:
        chosen = [numbered.get(number, "") for number in re.split("[ ,]+", answer)]
        pattern = "|".join(dict.fromkeys(chosen)) if all(chosen) else answer
        try:
            compile_pattern(pattern)
        except ValueError as error:
            raise ConfigError(f"expected {safe_message(error)}") from error
        draft.text = replace(pipeline, topics=pattern).text
        if not draft.topics()[0] and names:
            raise Refused(f"no topic of the source matches {safe_text(pattern)}")
        return pattern

    question = "Numbers of the list, or a regular expression for whole names"
    return prompt(question, "1", accept)


def _show(draft: Draft, given: Given) -> None:
    """Print what the pipeline would copy, and its file; whoever has to confirm sees it."""
    topics, existing = draft.topics()
    print_notes(draft.notes)
    if existing:
        print_note(
            f"the target has {counted(len(existing), 'topic')} of these names; copies are appended "
            f"to what they hold: {first_names(existing)}"
        )
    names = f": {first_names(topics)}" if topics else ""
    click.echo(f"It copies {counted(len(topics), 'topic')}{names}", err=given.as_json)
    if not (given.as_json and given.yes):
        click.echo(f"\n{printable(draft.text)}\n", err=given.as_json)


def _check(path: Path, draft: Draft, given: Given) -> int:
    """Validate and check the file that was written; return the exit code of ``check``."""
    from k2ktui.kafka.properties.translation import load_checked
    from k2ktui.replication.preflight.checks import CheckOutcome, exit_code

    click.echo(f"{safe_text(path)} was written; its checks take some seconds.", err=True)
    loaded = load_checked([path])
    name, checks = loaded.config.name, run_every_check(loaded.config)
    code = exit_code(checks)
    listed = [asdict(one) for one in checks]
    if given.as_json:
        made: dict[str, Any] = {
            "pipeline": name,
            "file": str(path),
            "text": draft.text,
            "notes": [*draft.notes, *loaded.notes],
            **{side: read.as_json() for side, read in draft.surveys.items()},
            "topics": draft.topics()[0],
            "exit_code": int(code),
            "checks": listed,
        }
        print_json(made, indent=2)
    else:
        print_notes(loaded.notes)
        click.echo(f"OK: the file of pipeline {safe_text(name)} is valid")
        for one in checks:
            if one.outcome is not CheckOutcome.PASS:
                click.echo(check_text(one))
        print_result(name, code, listed, as_json=False)
    _print_next(shlex.quote(safe_text(path)), draft, given, is_sound=not code)
    return code


def _print_next(file: str, draft: Draft, given: Given, *, is_sound: bool) -> None:
    """Print what to do with the file, whose name is quoted for a shell."""
    for variable in draft.typed:
        print_note(f"export {safe_text(variable)} wherever the pipeline is checked or started")
    if given.mirror:
        print_note(
            "MirrorMaker 2 writes the topics of this file: while it runs, and before k2ktui mm2 "
            "takeover, a start would copy all records a second time"
        )
    then = f"k2ktui jobs start -f {file}"
    if not is_sound:
        then = f"correct what failed, then k2ktui check -f {file}"
    elif given.mirror:
        mirror = shlex.quote(safe_text(given.mirror))
        then = f"stop MirrorMaker 2, then k2ktui mm2 takeover -f {file} --from {mirror}"
    click.echo(f"Next: {then}", err=True)
