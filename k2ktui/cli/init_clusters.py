"""The clusters of ``k2ktui init``: what is asked about each, and what it says of itself."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from k2ktui.cli import changes
from k2ktui.cli.check import printable
from k2ktui.config.clusters import BOOTSTRAP, PASSWORD_LOGINS, address_problem, one_line
from k2ktui.config.inputs import drafted, read_file
from k2ktui.config.new_file import (
    NewPipeline,
    login_properties,
    read_client_properties,
    secret_template,
    trusted,
    with_address,
)
from k2ktui.config.templates import variables_of
from k2ktui.engine.records.cluster_pair import Side
from k2ktui.errors import ConfigError, K2kError, Refused, fix_text
from k2ktui.kafka.auth.security import PROTOCOLS
from k2ktui.progress import long_step
from k2ktui.secret_values import remember_secrets
from k2ktui.text import first_names, safe_text

if TYPE_CHECKING:
    from k2ktui.config.model import PipelineConfig
    from k2ktui.replication.preflight.survey import ClusterSurvey

# What messages call the file before it is written.
_DRAFT = "the new file"
_MECHANISMS = tuple(PASSWORD_LOGINS)
_MECHANISM = click.Choice(_MECHANISMS, case_sensitive=False)
# In lower case, what is typed may be the password itself: it would stand in the file.
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_PATH = re.compile(r"(~|\.{0,2}/).*")


@dataclass(slots=True)
class Draft:
    """The text of a pipeline file that is not written yet, and what is known of its clusters.

    ``as_json`` leaves standard output to the result. ``notes`` are for the file's author, ``typed``
    are variables whose values were typed here.
    """

    as_json: bool
    text: str = ""
    notes: list[str] = field(default_factory=list)
    surveys: dict[Side, ClusterSurvey] = field(default_factory=dict)
    typed: list[str] = field(default_factory=list)

    @contextmanager
    def loaded(self) -> Iterator[PipelineConfig]:
        """Yield the pipeline as its file would be read; logins are read again meanwhile.

        Raises:
            ConfigError: lists every error.
        """
        from k2ktui.kafka.properties.translation import load_checked

        with drafted(_DRAFT, self.text):
            yield load_checked([_DRAFT]).config

    def survey(self, side: Side) -> None:
        """Read a cluster, and print what it says of itself.

        Raises:
            K2kError: it cannot be read, or is the one that was read before.
        """
        from k2ktui.replication.preflight.survey import survey_cluster

        with self.loaded() as config, long_step(f"reading the {side} cluster"):
            read = survey_cluster(config, side)
        other = self.surveys.get("source") if side == "target" else None
        if other is not None and read.cluster_id and read.cluster_id == other.cluster_id:
            raise Refused(
                f"{safe_text(read.bootstrap_servers)} is the source cluster, too (cluster id "
                f"{safe_text(read.cluster_id)}): each topic would be copied onto itself",
                hint="Give the address of another cluster as the target.",
            )
        self.surveys[side] = read
        click.echo(read.text(side), err=self.as_json)

    def topics(self) -> tuple[list[str], list[str]]:
        """Return the topics that it would copy now, and those of the target that they go to."""
        from k2ktui.replication.preflight.rights import selected_topics, target_topics

        source, target = self.surveys["source"].topics, self.surveys["target"].topics
        with self.loaded() as config:
            chosen = selected_topics(config, source) & source.keys()
            return sorted(chosen), sorted(target_topics(config, chosen) & target.keys())

    def require_new(self) -> str:
        """Return its name; refuse one that the target has: both would take the same positions.

        Raises:
            Refused: it has one of this name.
            ConfigError: the name is not valid.
        """
        from k2ktui.replication.preflight.survey import has_pipeline

        with self.loaded() as config, long_step("looking for the name on the target"):
            if has_pipeline(config):
                raise Refused(
                    f"the target has a pipeline {safe_text(config.name)} already, and a start "
                    "would continue its positions",
                    hint="Give the new one another name: that of its file, or name: in the file "
                    "of k2ktui mm2 import.",
                )
            return config.name

    def type_variables(self, text: str) -> None:
        """Ask for the environment variables that a text names and that are not set.

        Raises:
            ConfigError: one is not set, and nobody can be asked.
        """
        for name in variables_of(text):
            if name in os.environ:
                continue
            if not changes.can_ask():
                raise ConfigError(
                    f"the environment variable {safe_text(name)} is not set",
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


@dataclass(slots=True)
class Clusters:
    """Asks for clusters; what was answered last is proposed when the same is asked again.

    ``is_quiet`` asks only for what has no proposal: for no login.
    """

    draft: Draft
    is_quiet: bool
    answers: dict[tuple[str, str], str] = field(default_factory=dict)
    was_asked: bool = False

    def ask(
        self, side: Side, address: str, config: str, source: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the client properties of a cluster that answers; ask again where it does not.

        Args:
            side: which one; the draft gets what it says of itself.
            address, config: bootstrap servers and a file of client properties; "" to ask for them.
            source: the source's properties; until they are known, this cluster is read as both.
        """
        while True:
            typed, self.was_asked = len(self.draft.typed), False
            try:
                properties = self._properties(side, address, config)
                self.draft.text = NewPipeline(_DRAFT, source or properties, properties).text
                self.draft.type_variables(self.draft.text)
                self.draft.survey(side)
                return properties
            except K2kError as error:
                if not self.was_asked:
                    raise
                explain(error)
                self.draft.forget(typed)

    def _prompt(
        self, question: str, proposal: str = "", convert: Callable[[str], str] = str.strip
    ) -> str:
        self.was_asked = True
        last = self.answers.get((question, proposal), proposal)
        answer = self.answers[question, proposal] = prompt(question, last, convert)
        return answer

    def _properties(self, side: Side, address: str, config: str) -> dict[str, str]:
        properties = self._of_file(config) if config else {}
        address = address or properties.get(BOOTSTRAP, "")
        if not address:
            if not changes.can_ask():
                raise ConfigError(
                    f"{safe_text(config)} has no {BOOTSTRAP}",
                    hint=f"Add --{side} HOST:PORT.",
                )
            question = f"{side.capitalize()} cluster, bootstrap servers (HOST:PORT, …)"
            address = self._prompt(question, convert=partial(_servers, side))
        if not config and changes.can_ask() and not self.is_quiet:
            properties = self._login(side)
        return with_address(address, properties)

    def _login(self, side: Side) -> dict[str, str]:
        """Ask for the protocol and what it needs; of a password only where it comes from."""
        click.echo(f"  security protocol: {', '.join(PROTOCOLS)},", err=True)
        question = "  or a file of client properties, as for --command-config"
        protocol = self._prompt(question, PROTOCOLS[0], partial(_or_file, PROTOCOLS))
        if protocol not in PROTOCOLS:
            return self._of_file(protocol)
        properties = {} if protocol == PROTOCOLS[0] else {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            question = "  file of CA certificates, PEM (- for the system's)"
            ca_file = self._prompt(question, "-", partial(_or_file, ("-",)))
            properties |= {} if ca_file == "-" else trusted(ca_file)
        if protocol.startswith("SASL"):
            mechanisms = ", ".join(_MECHANISMS)
            question = f"  SASL mechanism ({mechanisms}; others with a file of properties)"
            mechanism = self._prompt(question, _MECHANISMS[0], _MECHANISM)
            user = self._prompt("  user")
            question = "  password: the environment variable or the /path/of/a/file that has it"
            origin = self._prompt(question, f"{side.upper()}_PASSWORD", _origin)
            secret = secret_template(origin)
            self.draft.type_variables(secret)
            _require_plain(origin)
            properties |= login_properties(mechanism, user, secret)
        return properties

    def _of_file(self, file: str) -> dict[str, str]:
        """Read a file of client properties, and note what is not taken from it."""
        file = _file(file)
        properties, left_out = read_client_properties(read_file(file), file)
        note = f"{safe_text(file)}: not of a connection: {first_names(left_out)}"
        if left_out and note not in self.draft.notes:
            self.draft.notes.append(note)
        return properties


def prompt(question: str, proposal: str, convert: Callable[[str], str]) -> str:
    """Ask until the answer can be used: until nothing raises an error. Ctrl-C ends the command."""

    def accept(answer: str) -> str:
        try:
            if not answer.isprintable():
                raise ConfigError("expected characters that can be printed")
            return convert(answer.strip())
        except K2kError as error:
            text = ". ".join(filter(None, [error.message, error.hint]))
            raise click.UsageError(printable(text)) from error

    answer: str = click.prompt(question, default=proposal or None, value_proc=accept, err=True)
    return answer


def explain(error: K2kError) -> None:
    """Print why a question is asked again."""
    click.echo(printable(f"{error.message}\n{fix_text(error.hint)}"), err=True)


def _servers(side: Side, answer: str) -> str:
    """Return the addresses of brokers; those that refuse connections are not taken."""
    from k2ktui.kafka.unreachable import await_open

    if problem := address_problem(answer, PROTOCOLS[0]):
        raise ConfigError(problem)
    await_open(side, one_line(answer))
    return answer


def _file(answer: str) -> str:
    """Return the name of a file that can be read, also later: no pipe."""
    name = os.path.expanduser(answer)
    if not (os.path.isfile(name) and os.access(name, os.R_OK)):
        raise ConfigError(f"{safe_text(name)} is no file that can be read")
    return name


def _or_file(values: Collection[str], answer: str) -> str:
    """Return one of the values in upper case, or the name of a file."""
    return answer.upper() if answer.upper() in values else _file(answer)


def _origin(answer: str) -> str:
    """Return where a password comes from; what may be the password itself is not shown."""
    if answer in os.environ or _VARIABLE.fullmatch(answer):
        return answer
    if not _PATH.fullmatch(answer):
        raise ConfigError("expected the name of a variable, such as SOURCE_PASSWORD, or /path")
    return _file(answer)


def _require_plain(origin: str) -> None:
    """Refuse a password that would end its quotes in the login's line."""
    secret = Path(origin).read_text(errors="replace") if "/" in origin else os.environ[origin]
    if re.search(r'["\\]', secret):
        raise ConfigError(
            f'the value of {safe_text(origin)} has a " or \\, which would end or change it in '
            "sasl.jaas.config",
            hint="Write a backslash before each of them there.",
        )
