"""``k2ktui bug-report``: one archive with what a maintainer needs, and no secret.

Each part is collected by itself: what is broken may break one of them.
"""

from __future__ import annotations

import io
import json
import logging
import os
import platform
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import click

from k2ktui import diagnostics, faults
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import write_file
from k2ktui.errors import ConfigError, ExitCode, K2kError
from k2ktui.progress import long_step
from k2ktui.secret_values import redact
from k2ktui.text import safe_text
from k2ktui.version import __version__

log = logging.getLogger(__name__)

CHECK_S = 60.0
_LOG_BYTES = 2 << 20
_JOB_LINES = 500
_FOLDER = "k2ktui-bug-report"


@click.command(help="Write versions, redacted configuration, logs, crashes and checks to a file.")
@options.optional_file
@options.value(
    "-o --output", "ARCHIVE", "New archive to write.  [default: k2ktui-bug-report-TIME.tar.gz]"
)
@options.flag("--no-check", "Do not contact the clusters.")
def bug_report(files: tuple[str, ...], output: str | None, no_check: bool) -> int:
    """Collect what can be collected, and say what could not."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = Path(output or f"k2ktui-bug-report-{moment}.tar.gz")
    if path.exists():
        raise ConfigError(
            f"{safe_text(path)} already exists",
            unchanged="Nothing was written.",
            hint="Choose another file name with -o.",
        )
    parts: list[Part] = []
    with long_step("parts of the bug report collected") as advance:
        for part in collect_parts(files, checks=not no_check):
            parts.append(part)
            advance(len(parts))
    write_archive(path, parts)
    for part in parts:
        click.echo(f"{part.name}: {part.missing or 'collected'}", err=True)
    click.echo(safe_text(path))
    click.echo("Read it before you send it: names of topics and groups are in it.", err=True)
    return ExitCode.OK


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the report.

    Attributes:
        name: its name in the archive.
        text: its content, without secrets.
        missing: why it has no content; empty if it has.
    """

    name: str
    text: str
    missing: str = ""


def collect_parts(files: Sequence[str], *, checks: bool) -> Iterator[Part]:
    """Yield all parts; one that cannot be collected says why.

    Args:
        files: the pipeline's files; may be empty.
        checks: whether to ask the clusters.
    """
    # First: reading the configuration registers the secrets that the later parts must hide.
    yield _collect("configuration.yaml", lambda: _configuration(files))
    yield _collect("versions.txt", _versions)
    yield _collect("log.txt", _log)
    yield _collect("crashes.txt", _crashes)
    yield _collect("job.jsonl", lambda: _jobs(files))
    yield _collect("check.json", lambda: _check(files, checks=checks))


def write_archive(path: Path, parts: Sequence[Part]) -> None:
    """Write a new archive with mode 0600.

    Raises:
        ConfigError: it cannot be written.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for part in parts:
            text = part.text or f"not collected: {part.missing}\n"
            data = text.encode(errors="backslashreplace")
            entry = tarfile.TarInfo(f"{_FOLDER}/{part.name}")
            entry.size, entry.mode = len(data), 0o600
            archive.addfile(entry, io.BytesIO(data))
    write_file(path, content.getvalue(), "{path} cannot be written: {why}")


class _Missing(Exception):
    """A part has no content; the text says why."""


def _collect(name: str, collect: Callable[[], str]) -> Part:
    try:
        return Part(name, redact(collect()))
    except _Missing as why:
        return Part(name, "", str(why))
    except K2kError as error:
        log.info("%s not collected: %s", name, error.message)
        return Part(name, "", redact(str(error)))
    except Exception as error:  # what is broken must not hide the other parts
        log.info("%s not collected", name, exc_info=error)
        return Part(name, "", redact(diagnostics.trace_text(error, brief=True)))


def _require_asked(files: Sequence[str], *, checks: bool = True) -> None:
    if not checks or not files:
        raise _Missing(f"not asked for: {'no -f' if checks else '--no-check'}")


def _configuration(files: Sequence[str]) -> str:
    _require_asked(files)
    from k2ktui.config.load import load
    from k2ktui.config.show import to_yaml

    loaded = load(files, need_replication=False)
    notes = "".join(f"# note: {line}\n" for note in loaded.notes for line in note.splitlines())
    return notes + to_yaml(loaded, with_sources=True)


def _versions() -> str:
    lines = [
        f"k2ktui {__version__}",
        f"Python {platform.python_version()} ({platform.python_implementation()})",
        f"System {platform.platform()}, {os.cpu_count()} cores",
        f"Java {_java()}",
        "",
    ]
    names = sorted(
        {f"{d.metadata['Name']} {d.version}" for d in metadata.distributions()}, key=str.lower
    )
    return "\n".join([*lines, *names, ""])


def _java() -> str:
    from k2ktui.runtime.java import find_java

    try:
        java = find_java()
    except K2kError as error:
        return f"not found: {error.message}"
    return f"{java.version} ({java.origin})"


def _log() -> str:
    files = diagnostics.log_files()
    if not files:
        raise _Missing("there is no log; repeat what fails with --debug")
    text = ""
    for file in files:
        with file.open("rb") as opened:
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(0, size - (_LOG_BYTES - len(text))))
            text = opened.read().decode(errors="replace") + text
        if len(text) >= _LOG_BYTES:
            break
    return text[-_LOG_BYTES:]


def _crashes() -> str:
    files = faults.crash_files()
    if not files:
        raise _Missing("there are none")
    return "\n".join(f"== {file.name}\n{file.read_text(errors='replace')}" for file in files)


def _jobs(files: Sequence[str]) -> str:
    from k2ktui.config.load import load
    from k2ktui.engine.moves.journal import RunKind
    from k2ktui.jobs.joblog import read_tail
    from k2ktui.jobs.local_jobs import find_job

    _require_asked(files)
    lines: list[str] = []
    for kind in RunKind:
        job = find_job(files, lambda: load(files, need_replication=False).config, kind)
        if job is not None:
            lines.append(json.dumps({"job": str(kind), "record": str(job.record)}))
            lines += [json.dumps(entry.object) for entry in read_tail(job.place, _JOB_LINES)]
    if not lines:
        raise _Missing("this host has no job of this pipeline")
    return "\n".join([*lines, ""])


def _check(files: Sequence[str], *, checks: bool) -> str:
    _require_asked(files, checks=checks)
    # A process of its own can be ended when a cluster does not answer.
    command = [sys.executable, "-P", "-m", "k2ktui", "check", "--json"]
    for file in files:
        command += ["-f", file]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CHECK_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _Missing(f"k2ktui check did not end within {CHECK_S:g} s") from error
    return f"{done.stdout}{done.stderr}exit code {done.returncode}\n"
