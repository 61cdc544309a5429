"""``k2ktui init``: a pipeline's file from questions, each of which an option can answer."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli import changes
from k2ktui.cli.check import check_text, print_result, run_every_check
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import write_new
from k2ktui.cli.terminal.notes import print_note, print_notes
from k2ktui.cli.terminal.tables import print_json
from k2ktui.config.clusters import BOOTSTRAP, address_problem, one_line
from k2ktui.config.inputs import can_be_read_again, drafted, read_file
from k2ktui.config.model import PipelineConfig
from k2ktui.config.new_file import (
    ALL_TOPICS,
    MECHANISMS,
    NewPipeline,
    login_properties,
    name_of_file,
    propose_name,
    propose_topics,
    read_client_properties,
    secret_template,
    trusted,
    with_address,
)
from k2ktui.config.templates import variables_of
from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.engine.records.cluster_pair import Side
from k2ktui.errors import (
    ConfigError,
    ConnectionFailed,
    Declined,
    K2kError,
    LoginFailed,
    Refused,
    fix_text,
)
from k2ktui.secret_values import remember_secrets
from k2ktui.text import counted, first_names, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.replication.preflight.checks import Check
    from k2ktui.replication.preflight.survey import ClusterSurvey

_UNCHANGED = "Nothing was written."
# What messages call the file before it is written.
_DRAFT = "the new file"
_SUFFIXES = (".yaml", ".yml")
_MOST_PATTERNS = 15
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTING = re.compile(r'["\\]')
_QUOTING_TEXT = 'a " or \\, which would end or change it in sasl.jaas.config'
_NUMBERS = re.compile(r"[0-9]+(?:[ ,]+[0-9]+)*")


@dataclass(frozen=True, slots=True)
class Given:
    """The options of ``init``: the answers to its questions, "" for those that it asks.

    Attributes:
        source, target: bootstrap servers.
        source_config, target_config: files of client properties.
        topics: a regular expression.
        mirror: a file of MirrorMaker 2, instead of all of these.
        output: the file to write.
        yes: whether its proposals are the answers to what is left.
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

    def of(self, side: Side) -> tuple[str, str]:
        """Return the bootstrap servers and the file of client properties of a side."""
        if side == "source":
            return self.source, self.source_config
        return self.target, self.target_config


@dataclass(slots=True)
class Login:
    """What was answered last about a login: the proposal for the next question about one.

    ``origins`` has where the password of each cluster comes from.
    """

    protocol: str = _PROTOCOLS[0]
    mechanism: str = MECHANISMS[0]
    user: str = ""
    ca_file: str = ""
    origins: dict[Side, str] = field(default_factory=dict)


@dataclass(slots=True)
class Draft:
    """What is known of the new pipeline.

    Attributes:
        text: the text of its file.
        file: the file.
        notes: what its author has to look at.
        surveys: the clusters, as far as they were read.
        topics: the source topics that it would copy now.
        typed: environment variables whose values were typed here.
    """

    text: str = ""
    file: str = ""
    notes: list[str] = field(default_factory=list)
    surveys: dict[Side, ClusterSurvey] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    typed: list[str] = field(default_factory=list)

    def load(self) -> PipelineConfig:
        """Return the pipeline as its file would be read.

        Raises:
            ConfigError: lists every error.
        """
        from k2ktui.kafka.properties.translation import load_checked

        with drafted(_DRAFT, self.text):
            return load_checked([_DRAFT]).config

    def survey(self, side: Side) -> None:
        """Read a cluster.

        Raises:
            K2kError: it cannot be read, or is the one that was read before.
        """
        from k2ktui.replication.preflight.survey import survey_cluster

        config = self.load()
        with drafted(_DRAFT, self.text):  # logins are read again while it is read
            try:
                read = survey_cluster(config, side)
            except K2kError as error:
                error.unchanged = error.unchanged or _UNCHANGED
                raise
        other = self.surveys.get("source") if side == "target" else None
        if other is not None and read.cluster_id and read.cluster_id == other.cluster_id:
            raise Refused(
                f"{safe_text(read.bootstrap_servers)} is the source cluster, too (cluster id "
                f"{safe_text(read.cluster_id)}): each topic would be copied onto itself",
                unchanged=_UNCHANGED,
                hint="Give the address of another cluster as the target.",
            )
        self.surveys[side] = read

    def type_variables(self) -> None:
        """Ask for the environment variables that the file names and that are not set.

        Raises:
            ConfigError: one is not set, and nobody can be asked.
        """
        for name in variables_of(self.text):
            if name in os.environ:
                continue
            if not changes.can_ask():
                raise ConfigError(
                    f"the environment variable {safe_text(name)} is not set",
                    unchanged=_UNCHANGED,
                    hint="Export it, and repeat the command; its value does not go into the file.",
                )
            question = f"  {safe_text(name)} is not set; its value, for this reading only"
            value = click.prompt(question, hide_input=True, err=True)
            os.environ[name] = value
            remember_secrets([("password", value)])
            self.typed.append(name)

    def forget(self, kept: int = 0) -> None:
        """Forget the values that were typed, but for the first ones."""
        for name in self.typed[kept:]:
            os.environ.pop(name, None)
        del self.typed[kept:]


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
    draft = Draft()
    try:
        return set_up(Given(**answers), draft)
    finally:
        draft.forget()


def offer_first(directory: Path) -> Path | None:
    """Offer to set up the first pipeline of a directory; return its file, None if declined.

    What was typed stays known to this process, which opens the pipeline.
    """
    question = f"{safe_text(directory)} has no pipeline file yet. Set one up now?"
    if not (changes.can_ask() and _confirmed(question)):
        return None
    draft = Draft()
    set_up(Given(), draft, directory)
    click.pause("Press any key to open the console.", err=True)
    return Path(draft.file)


def set_up(given: Given, draft: Draft, directory: Path | None = None) -> int:
    """Ask for what the options do not say, write the file, and check it.

    Args:
        given: the options.
        draft: becomes what was written.
        directory: where the file belongs; None for wherever its name says.

    Returns:
        The exit code of ``check``.
    """
    _require_answers(given)
    if given.output:
        draft.file = _checked_file(given.output)
    if given.mirror:
        name = _import(given, draft)
    else:
        pipeline = _ask_for_clusters(given, draft)
        pipeline = _ask_for_topics(given, draft, pipeline)
        name = pipeline.name
    draft.file = _ask_for_file(given, draft, name, directory)
    if not given.mirror:
        draft.text = replace(pipeline, name=name_of_file(Path(draft.file).stem)).text
    _show(draft, given)
    if not (given.yes or _confirmed(f"Write {safe_text(draft.file)}?")):
        raise Declined("the file was not wanted", unchanged=_UNCHANGED)
    write_new(Path(draft.file), draft.text)
    return _check(draft, given)


def _require_answers(given: Given) -> None:
    """Refuse options that contradict each other, and missing ones where nobody can be asked.

    Raises:
        ConfigError: names them.
    """
    asked = (given.source, given.target, given.source_config, given.target_config, given.topics)
    if given.mirror and any(asked):
        raise ConfigError(
            "--from takes clusters, logins and topics from its file",
            unchanged=_UNCHANGED,
            hint="Give --from with -o and --yes only, and edit the file that it writes.",
        )
    try:
        compile_pattern(given.topics)
    except ValueError as error:
        raise ConfigError(
            f"--topics: expected {safe_message(error)}",
            unchanged=_UNCHANGED,
            hint="Names without special characters match themselves; | stands between them.",
        ) from error
    if changes.can_ask():
        return
    answers = {
        "--source": given.mirror or given.source or given.source_config,
        "--target": given.mirror or given.target or given.target_config,
        "--topics": given.mirror or given.topics or given.yes,
        "-o": given.output or given.yes,
        "--yes": given.yes,
    }
    if missing := [option for option, answer in answers.items() if not answer]:
        raise ConfigError(
            f"standard input is not a terminal to ask for {', '.join(missing)}",
            unchanged=_UNCHANGED,
            hint="Give these options. --yes alone stands for all topics, and for a file in this "
            "directory that is called after the addresses.",
        )


def _import(given: Given, draft: Draft) -> str:
    """Take the pipeline from MirrorMaker 2's file, and read both clusters; return its name."""
    from k2ktui.mm2.importing.pipeline_file import import_file

    imported = import_file(given.mirror)
    draft.text, draft.notes = imported.text, list(imported.notes)
    while not draft.surveys.keys() >= {"source", "target"}:
        draft.type_variables()
        try:
            for side in ("source", "target"):
                draft.survey(side)
                _show_survey(draft, side, given)
        except LoginFailed as error:
            if not draft.typed:
                raise
            _explain(error)
            draft.forget()
    config = draft.load()
    draft.topics = _select(draft, config)
    return config.name


def _ask_for_clusters(given: Given, draft: Draft) -> NewPipeline:
    """Ask for both clusters, and read each at once; return the pipeline between them."""
    login = Login()
    source = _ask_for_cluster("source", given, draft, login)
    target = _ask_for_cluster("target", given, draft, login, source)
    return NewPipeline(propose_name(source[BOOTSTRAP], target[BOOTSTRAP]), source, target)


def _ask_for_cluster(
    side: Side,
    given: Given,
    draft: Draft,
    login: Login,
    source: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the client properties of a cluster that answers; ask again where it does not.

    Args:
        side: which one.
        given: the options; what they say is not asked again.
        draft: gets what the cluster says of itself.
        login: proposals, replaced by the answers.
        source: the source's properties; until they are known, this cluster is read as both.
    """
    servers = ""
    while True:
        typed = len(draft.typed)
        properties, was_asked = _ask_for_properties(side, given, draft, login, servers)
        draft.text = NewPipeline(_DRAFT, source or properties, properties).text
        try:
            draft.type_variables()
            _require_plain(properties)
            draft.survey(side)
        except K2kError as error:
            if not was_asked:
                raise
            _explain(error)
            draft.forget(typed)
            servers = properties[BOOTSTRAP]
        else:
            _show_survey(draft, side, given)
            return properties


def _ask_for_properties(
    side: Side, given: Given, draft: Draft, login: Login, servers: str
) -> tuple[dict[str, str], bool]:
    """Return the client properties of a cluster, and whether a person was asked for any."""
    address, config = given.of(side)
    properties = _read_properties(config, draft) if config else {}
    was_asked = False
    if not address:
        address = properties.get(BOOTSTRAP, "")
    if not address:
        if not changes.can_ask():
            raise ConfigError(
                f"{safe_text(config)} has no {BOOTSTRAP}",
                unchanged=_UNCHANGED,
                hint=f"Add --{side} HOST:PORT.",
            )
        question = f"{side.capitalize()} cluster, bootstrap servers (HOST:PORT, …)"
        address, was_asked = _prompt(question, servers, partial(_servers, side)), True
    if not config and changes.can_ask() and not given.yes:
        properties, was_asked = _ask_for_login(side, draft, login), True
    return with_address(address, properties), was_asked


def _ask_for_login(side: Side, draft: Draft, login: Login) -> dict[str, str]:
    """Ask for the security protocol and what it needs; a password only for where it comes from."""
    click.echo(f"  security protocol: {', '.join(_PROTOCOLS)},", err=True)
    question = "  or a file of client properties, as for --command-config"
    login.protocol = _prompt(question, login.protocol, _protocol)
    if login.protocol not in _PROTOCOLS:
        return _read_properties(login.protocol, draft)
    properties: dict[str, str] = {}
    if login.protocol != _PROTOCOLS[0]:
        properties["security.protocol"] = login.protocol
    if login.protocol.endswith("SSL"):
        question = "  file of CA certificates, PEM (- for the system's)"
        login.ca_file = _prompt(question, login.ca_file or "-", _ca_file)
        properties |= trusted(login.ca_file) if login.ca_file != "-" else {}
    if login.protocol.startswith("SASL"):
        mechanisms = ", ".join(MECHANISMS)
        question = f"  SASL mechanism ({mechanisms}; others with a file of properties)"
        login.mechanism = _prompt(question, login.mechanism, _mechanism)
        login.user = _prompt("  user", login.user)
        question = "  password: the environment variable or the /path/of/a/file that has it"
        proposal = login.origins.get(side, f"{side.upper()}_PASSWORD")
        origin = login.origins[side] = _prompt(question, proposal, _origin)
        properties |= login_properties(login.mechanism, login.user, secret_template(origin))
    return properties


def _read_properties(file: str, draft: Draft) -> dict[str, str]:
    """Read a file of client properties, and note what is not taken from it."""
    try:
        raw = read_file(file)
    except OSError as error:
        raise ConfigError(
            f"{safe_text(file)} cannot be read: {error.strerror}",
            unchanged=_UNCHANGED,
            hint="Give a file of client properties, as for --command-config of Kafka's tools.",
        ) from error
    if not can_be_read_again([file]):
        raise ConfigError(
            f"{safe_text(file)} cannot be read again: the pipeline file refers to its secrets",
            unchanged=_UNCHANGED,
            hint="Give a file that stays, not - or a pipe.",
        )
    properties, left_out = read_client_properties(raw, file)
    note = f"{safe_text(file)}: not of a connection: {first_names(left_out)}"
    if left_out and note not in draft.notes:
        draft.notes.append(note)
    return properties


def _require_plain(properties: Mapping[str, str]) -> None:
    """Refuse a password of a variable that would end its quotes in the login's line."""
    line = properties.get("sasl.jaas.config", "")
    for name in variables_of(line):
        if line.endswith(f'"{secret_template(name)}";') and _QUOTING.search(os.environ[name]):
            raise ConfigError(
                f"the value of {safe_text(name)} has {_QUOTING_TEXT}",
                unchanged=_UNCHANGED,
                hint="Write a backslash before each of them in the variable.",
            )


def _ask_for_topics(given: Given, draft: Draft, pipeline: NewPipeline) -> NewPipeline:
    """Return the pipeline with a regular expression for topics, of those that the source has."""
    names = draft.surveys["source"].topics
    offers = propose_topics(names, _MOST_PATTERNS)
    if given.topics or given.yes:
        chosen = replace(pipeline, topics=given.topics or ALL_TOPICS)
        draft.text = chosen.text
        draft.topics = _select(draft, draft.load())
        return chosen
    click.echo("Topics to copy:", err=True)
    for number, (pattern, count) in enumerate(offers, 1):
        all_of_them = " (all)" if pattern == ALL_TOPICS else ""
        line = f"{number:>4}  {counted(count, 'topic'):>12}  {safe_text(pattern)}{all_of_them}"
        click.echo(line, err=True)
    if len(offers) == _MOST_PATTERNS:
        click.echo("      others by a regular expression", err=True)

    def choose(answer: str) -> str:
        pattern = _pattern(answer.strip(), offers)
        draft.text = replace(pipeline, topics=pattern).text
        try:
            compile_pattern(pattern)
            draft.topics = _select(draft, draft.load())
        except ValueError as error:
            raise click.UsageError(f"expected {safe_message(error)}") from error
        except ConfigError as error:
            raise click.UsageError(_printable(error.message)) from error
        if names and not draft.topics:
            raise click.UsageError(f"no topic of the source matches {safe_text(pattern)}")
        return pattern

    question = "Numbers of the list, or a regular expression for whole names"
    return replace(pipeline, topics=_prompt(question, "1", choose))


def _pattern(answer: str, offers: Sequence[tuple[str, int]]) -> str:
    """Return the regular expression of an answer; numbers choose from the list."""
    if not _NUMBERS.fullmatch(answer):
        return answer
    numbers = [int(number) for number in re.findall("[0-9]+", answer)]
    if not all(1 <= number <= len(offers) for number in numbers):
        return answer
    return "|".join(offers[number - 1][0] for number in dict.fromkeys(numbers))


def _select(draft: Draft, config: PipelineConfig) -> tuple[str, ...]:
    """Return the topics of the source that a pipeline would copy."""
    from k2ktui.replication.preflight.rights import selected_topics

    names = draft.surveys["source"].topics
    return tuple(sorted(selected_topics(config, names) & names.keys()))


def _ask_for_file(given: Given, draft: Draft, name: str, directory: Path | None) -> str:
    """Return the name of the file to write, which does not exist."""
    if given.output:
        return draft.file
    proposal = f"{name}.yaml"
    if given.yes:
        return _checked_file(proposal)

    def choose(answer: str) -> str:
        file = Path(answer.strip())
        return _usable(_checked_file, str(file if directory is None else directory / file.name))

    question = "File to write" + ("" if given.mirror else "; its name is also the pipeline's")
    return _prompt(question, proposal, choose)


def _checked_file(file: str) -> str:
    """Return the name of a new file.

    Raises:
        Refused: the file exists.
        ConfigError: it cannot be a pipeline's file.
    """
    path = Path(file).expanduser()
    if path.suffix not in _SUFFIXES or "," in file:
        raise ConfigError(
            f"{safe_text(file)} is no name for a pipeline file",
            unchanged=_UNCHANGED,
            hint="Give one that ends in .yaml and has no comma.",
        )
    if path.exists() or path.is_symlink():
        raise Refused(
            f"{safe_text(path)} already exists",
            unchanged=_UNCHANGED,
            hint="Choose another file name.",
        )
    if not path.parent.is_dir():
        raise ConfigError(
            f"{safe_text(path)}: {safe_text(path.parent)} is no directory", unchanged=_UNCHANGED
        )
    return str(path)


def _check(draft: Draft, given: Given) -> int:
    """Validate and check the file that was written; say what comes next."""
    from k2ktui.kafka.properties.translation import load_checked
    from k2ktui.replication.preflight.checks import CheckOutcome, exit_code

    file = shlex.quote(safe_text(draft.file))
    click.echo(f"{safe_text(draft.file)} was written; its checks take some seconds.", err=True)
    loaded = load_checked([draft.file])
    config = loaded.config
    checks = run_every_check(config)
    code = exit_code(checks)
    if given.as_json:
        _print_json(draft, config.name, code, checks, [*draft.notes, *loaded.notes])
    else:
        print_notes(loaded.notes)
        click.echo(f"OK: pipeline {safe_text(config.name)}")
        for one in checks:
            if one.outcome is not CheckOutcome.PASS:
                click.echo(check_text(one))
        print_result(config.name, code, [asdict(one) for one in checks], as_json=False)
    for name in draft.typed:
        print_note(f"export {safe_text(name)} wherever the pipeline is checked or started")
    if given.mirror:
        mirror = shlex.quote(safe_text(given.mirror))
        print_note(
            "to continue where MirrorMaker 2 has stopped, run k2ktui mm2 takeover "
            f"-f {file} --from {mirror} before the first start"
        )
    again = f"correct what failed, then k2ktui check -f {file}"
    click.echo(f"Next: {again if code else f'k2ktui jobs start -f {file}'}", err=True)
    return code


def _print_json(
    draft: Draft, pipeline: str, code: int, checks: Iterable[Check], notes: Sequence[str]
) -> None:
    clusters: dict[str, dict[str, Any]] = {
        side: {
            **asdict(read),
            "topics": len(read.topics),
            "partitions": sum(read.topics.values()),
            "left_out": list(read.left_out),
        }
        for side, read in draft.surveys.items()
    }
    print_json(
        {
            "pipeline": pipeline,
            "file": draft.file,
            "text": draft.text,
            "notes": notes,
            **clusters,
            "topics": list(draft.topics),
            "exit_code": int(code),
            "checks": [asdict(one) for one in checks],
        },
        indent=2,
    )


def _show_survey(draft: Draft, side: Side, given: Given) -> None:
    """Print what a cluster has said of itself."""
    read, err = draft.surveys[side], given.as_json
    version = f"Kafka {read.version}" if read.version else "Kafka of unknown version"
    click.echo(
        f"{side.capitalize()} {safe_text(read.bootstrap_servers)}: {version}, "
        f"{counted(read.brokers, 'broker')}, cluster id {safe_text(read.cluster_id or 'unknown')}",
        err=err,
    )
    partitions = counted(sum(read.topics.values()), "partition")
    groups = "groups cannot be listed" if read.groups is None else counted(read.groups, "group")
    click.echo(f"  {counted(len(read.topics), 'topic')}, {partitions}, {groups}", err=err)
    if read.left_out:
        count = counted(len(read.left_out), "internal topic")
        click.echo(f"  left out: {count} ({first_names(read.left_out)})", err=err)


def _show(draft: Draft, given: Given) -> None:
    """Print what the pipeline would copy, and its file."""
    count = counted(len(draft.topics), "topic")
    names = f": {first_names(draft.topics)}" if draft.topics else ""
    print_notes(draft.notes)
    if existing := sorted(draft.topics & draft.surveys["target"].topics.keys()):
        print_note(
            f"the target has {counted(len(existing), 'topic')} of these names; copies are appended "
            f"to what they hold: {first_names(existing)}"
        )
    click.echo(f"It copies {count}{names}", err=given.as_json)
    if not given.as_json:
        click.echo()
        click.echo("\n".join(map(safe_message, draft.text.splitlines())))
        click.echo()


def _prompt(question: str, proposal: str = "", convert: Callable[[str], str] | None = None) -> str:
    """Ask until the answer can be used; Ctrl-C ends the command."""
    answer: str = click.prompt(
        question, default=proposal or None, value_proc=convert or str.strip, err=True
    )
    return answer


def _confirmed(question: str) -> bool:
    return click.confirm(question, default=True, err=True)


def _usable(check: Callable[[str], str], answer: str) -> str:
    """Return the answer as a check has it; its error lets the question be asked again."""
    try:
        return check(answer.strip())
    except K2kError as error:
        raise click.UsageError(f"{error.message}. {error.hint}") from error


def _servers(side: Side, answer: str) -> str:
    """Return the addresses of brokers; those that refuse connections are not taken."""
    from k2ktui.kafka.unreachable import await_open

    if problem := address_problem(answer, _PROTOCOLS[0]):
        raise click.UsageError(problem)
    try:
        await_open(side, one_line(answer))
    except ConnectionFailed as error:
        raise click.UsageError(error.message) from error
    return answer.strip()


def _file(answer: str) -> str:
    """Return the name of a file that can be read."""
    name = os.path.expanduser(answer.strip())
    if not (os.path.isfile(name) and os.access(name, os.R_OK)):
        raise click.UsageError(f"{safe_text(name)} is no file that can be read")
    return name


def _protocol(answer: str) -> str:
    protocol = answer.strip().upper()
    return protocol if protocol in _PROTOCOLS else _file(answer)


def _ca_file(answer: str) -> str:
    return "-" if answer.strip() == "-" else _file(answer)


def _mechanism(answer: str) -> str:
    chosen = answer.strip().upper()
    if chosen not in MECHANISMS:
        raise click.UsageError(f"expected one of {', '.join(MECHANISMS)}")
    return chosen


def _origin(answer: str) -> str:
    """Return where a password comes from: the name of a variable, or a file with a slash in it."""
    if _VARIABLE.fullmatch(answer.strip()):
        return answer.strip()
    if "/" not in answer:
        # It may be the password itself, which is not shown.
        raise click.UsageError("expected the name of a variable, such as SOURCE_PASSWORD, or /path")
    name = _file(answer)
    if _QUOTING.search(Path(name).read_text(errors="replace")):
        raise click.UsageError(f"{safe_text(name)} has {_QUOTING_TEXT}")
    return name


def _explain(error: K2kError) -> None:
    """Print why a question is asked again."""
    click.echo(_printable(f"{error.message}\n{fix_text(error.hint)}"), err=True)


def _printable(text: str) -> str:
    return "\n".join(map(safe_message, text.splitlines()))
