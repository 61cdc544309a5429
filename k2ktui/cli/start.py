"""``k2ktui start``: run a pipeline until it is stopped or has caught up; options of such programs.

Lenses' programs have them, too: ``start`` and ``sync`` run with their command lines. Kubernetes
shows the termination log as the reason why a container ended.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import allowed_to, load_pipeline
from k2ktui.cli.terminal.notes import print_note
from k2ktui.cli.terminal.streams import ending_signals
from k2ktui.errors import K2kError
from k2ktui.faults import fault
from k2ktui.text import safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.replication.preflight.checks import Check
    from k2ktui.replication.reports.events import Report
    from k2ktui.runtime.http_server import Address

F = TypeVar("F", bound=Callable[..., Any])

# Kubernetes mounts a file there, and reads at most so much of it.
_DEFAULT = "/dev/termination-log"
_LONGEST_BYTES = 4096
_LOOPBACK, _LARGEST_PORT = "127.0.0.1", 65_535


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """Options of a program that runs until it is stopped.

    Attributes:
        templates: whether ``${…}`` in the files is filled in.
        termination_log: the file for the fatal error; empty for none.
        creates_log: whether that file is created if it does not exist.
        http: where to serve probes and metrics; None for nowhere.
    """

    templates: bool
    termination_log: str
    creates_log: bool
    http: Address | None = None

    @contextlib.contextmanager
    def report_death(self) -> Iterator[None]:
        """Write an error that ends the program to the termination log, and pass it on."""
        try:
            yield
        except Exception as error:
            self._write(error if isinstance(error, K2kError) else fault(error))
            raise

    def _write(self, error: K2kError) -> None:
        if not self.termination_log:
            return
        text = " ".join(safe_message(part) for part in str(error).splitlines())
        flags = os.O_WRONLY | os.O_TRUNC | os.O_NOCTTY | (os.O_CREAT if self.creates_log else 0)
        # The error itself is on stderr: a file that cannot be written must not hide it.
        with contextlib.suppress(OSError):
            handle = os.open(self.termination_log, flags, 0o600)
            with open(handle, "wb") as file:
                file.write(text.encode(errors="backslashreplace")[:_LONGEST_BYTES])


def _address(_: click.Context, __: click.Parameter, text: str | None) -> Address | None:
    if text is None:
        return None
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else _LOOPBACK
    if host and port.isascii() and port.isdigit() and int(port) <= _LARGEST_PORT:
        return host, int(port)
    raise click.BadParameter(
        f"{safe_text(text)} is no address; give a port, or a host and a port: 0.0.0.0:8080"
    )


def _switch(short: str, name: str, text: str) -> Callable[[F], F]:
    kind = click.Choice(["enabled", "disabled"])
    return click.option(short, name, type=kind, default="enabled", show_default=True, help=text)


_PROGRAM_OPTIONS = (
    options.value(
        "--http",
        "[HOST:]PORT",
        "Serve /livez, /readyz and /metrics over HTTP at this address (default host: 127.0.0.1).",
        callback=_address,
    ),
    _switch("-w", "--termination-log-enabled", "Whether that file is written."),
    options.value(
        "-l --termination-log",
        "PATH",
        f"Write the error that ends the program to this file.  [default: {_DEFAULT}, if it exists]",
    ),
    _switch("-g", "--template-engine", "Whether ${…} in the files is filled in."),
)


def program_options(function: F) -> F:
    """Add ``-g``, ``-l``, ``-w`` and ``--http``; the command gets them as ``options``."""

    def command(
        *given: Any,
        template_engine: str,
        termination_log: str | None,
        termination_log_enabled: str,
        http: Address | None = None,
        **rest: Any,
    ) -> Any:
        path = (termination_log or _DEFAULT) if termination_log_enabled == "enabled" else ""
        options = ProgramOptions(
            template_engine == "enabled", path, termination_log is not None, http
        )
        with options.report_death():
            return function(*given, options=options, **rest)

    for option in _PROGRAM_OPTIONS:
        command = option(command)
    if hasattr(function, "__click_params__"):
        raise TypeError("program_options goes below the other options")
    return command  # type: ignore[return-value]


def log_format_option(line: str, unit: str) -> Callable[[F], F]:
    """Return ``--log-format``: a line of text for each ``line``, or an object for each ``unit``."""
    return options.choice(
        "--log-format",
        ["text", "json"],
        f"Format: text (one line per {line}) or json (one object per {unit}).",
        "text",
    )


@click.command(help="Run a pipeline until SIGTERM or SIGINT, or until it has caught up.")
@options.file
@options.flag(
    "--until-caught-up", "Exit when every partition has reached the end offset read at startup."
)
@log_format_option("lap", "event")
@options.flag(
    "-t --telemetry",
    "Export metrics as the OTEL_* variables specify (implied by OTEL_METRICS_EXPORTER).",
)
@options.flag(
    "--take-over",
    "Fence the other runs of the pipeline instead of waiting for one that copies alone; with "
    "coordination.mode: shared, those that share it get a part again.",
)
@options.accept
@options.unlock
@program_options
def start(
    files: tuple[str, ...],
    until_caught_up: bool,
    log_format: str,
    telemetry: bool,
    take_over: bool,
    accepted: tuple[str, ...],
    yes: bool,
    unlock: bool,
    options: ProgramOptions,
) -> int:
    """Run the pipeline, and return the exit code."""
    from k2ktui.runtime.log_lines import RunLog
    from k2ktui.starting import run_pipeline

    config = load_pipeline(files, templates=options.templates)
    allowed = allowed_to(config, "starting the pipeline", unlock=unlock)
    if accepted or yes:  # a start without them does not wait for this import
        from k2ktui.cli.offsets import accept_clusters

        accept_clusters(config, accepted, allowed, yes=yes)
    if take_over and config.coordination.mode == "exclusive":
        print_note(
            "--take-over changes nothing: with coordination.mode: exclusive, every start "
            "fences the run that copies"
        )

    # Deferred imports: the run loads them, while Java starts.
    def describe(report: Report) -> str:
        from k2ktui.replication.reports.events import report_event, report_text

        return json.dumps(report_event(report)) if log_format == "json" else report_text(report)

    def describe_note(text: str) -> str:
        from k2ktui.replication.reports.events import Note

        return describe(Note(text))

    def describe_check(check: Check) -> str:
        from k2ktui.cli.check import check_text

        return check_text(check)

    with RunLog(describe_note) as log:
        return run_pipeline(
            config,
            lambda report: log.print(describe(report)),
            lambda check: log.print_error(describe_check(check)),
            until_caught_up=until_caught_up,
            telemetry=telemetry,
            take_over=take_over,
            ending=ending_signals(),
            http=options.http,
        )
