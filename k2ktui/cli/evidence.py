"""``k2ktui evidence``: verify and sum up the signed reports of drills, and sign one later.

``verify`` and ``summary`` are for auditors: they need no pipeline file and no cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from k2ktui.cli.changes import ask_passphrase
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import load_flow, write_file
from k2ktui.cli.terminal.notes import print_note, print_notes
from k2ktui.cli.terminal.tables import print_json
from k2ktui.config.scalars import parse_instant
from k2ktui.drill.evidence.directory import list_documents
from k2ktui.drill.evidence.document import Evidence
from k2ktui.drill.evidence.keys import read_public_key
from k2ktui.drill.evidence.summary import choose, make_summary
from k2ktui.drill.evidence.verification import (
    Verified,
    VerifiedFile,
    compare_reports,
    verify_files,
)
from k2ktui.drill.report_html import render_html
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.text import counted, moment, safe_message, safe_text

_NOTHING_READ = "Nothing was verified."
_NOT_COMPARED = "rehearsals that a report lists are not compared: they may have ended later"
_PATH = click.Path(path_type=Path)
_KEYS = options.value(
    "--key keys",
    "PUB",
    "Public key in PEM; may be repeated.",
    multiple=True,
    required=True,
    type=_PATH,
)


@click.group(cls=options.Group)
def evidence() -> None:
    """Verify and sum up signed reports of drills, offline; sign one later."""


@evidence.command(
    short_help="Verify signed reports with the public key.",
    help="Verify signed reports with the public key, and find gaps in their sequences. Needs no "
    "pipeline file and no cluster. The signature of FILE is FILE.sig.",
)
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=_PATH)
@_KEYS
@options.value(
    "--report reports",
    "FILE",
    "Report from k2ktui drill report --json to compare with the signed one; may be repeated.",
    multiple=True,
    type=_PATH,
)
@options.json
def verify(
    paths: tuple[Path, ...], keys: tuple[Path, ...], reports: tuple[Path, ...], as_json: bool
) -> int:
    """Verify files; findings if one is not as it was signed, or a sequence has gaps."""
    verified = verify_files(paths, [read_public_key(key) for key in keys])
    problems = [*verified.problems, *compare_reports(verified.evidence, reports)]
    notes = [*verified.notes, *([_NOT_COMPARED] if reports else [])]
    if as_json:
        print_json(
            {
                "files": [_file_json(one) for one in verified.files],
                "problems": problems,
                "notes": notes,
            }
        )
    else:
        _print_files(verified)
        print_notes(notes)
        for problem in problems:
            click.echo(problem, err=True)
        valid = sum(one.evidence is not None for one in verified.files)
        click.echo(
            f"{valid:,} of {counted(len(verified.files), 'file')} signed and unchanged, "
            f"{counted(len(problems), 'problem')}."
        )
    return ExitCode.FINDINGS if problems else ExitCode.OK


def _print_files(verified: Verified) -> None:
    paths = {one.evidence.digest: one.path for one in verified.files if one.evidence}
    for document in verified.evidence:
        for line in _lines(document, paths[document.digest]):
            click.echo(safe_message(line))


def _lines(document: Evidence, path: Path) -> list[str]:
    """Return who signed what when, and what the report says; not yet safe to print."""
    return [
        f"{document.pipeline} number {document.place.sequence}: {document.kind.noun} "
        f"{document.drill_id}, {document.status} {moment(document.ended_ms / 1000)}",
        f"    file {path}",
        f"    signed {document.signed.describe()}",
        f"    by {document.signed_by}, {moment(document.signed_ms / 1000)}",
        f"    key {document.key}",
        f"    clusters {document.source_cluster or 'unknown'} to {document.target_cluster}",
        *(f"    {line}" for line in document.summary),
    ]


def _file_json(one: VerifiedFile) -> dict[str, Any]:
    document = one.evidence
    if document is None:
        return {"file": str(one.path), "valid": False, "problem": one.problem}
    return {
        "file": str(one.path),
        "valid": True,
        "sha256": document.digest,
        "key": document.key,
        "pipeline": document.pipeline,
        "sequence": document.place.sequence,
        "previous": document.place.previous,
        "drill": document.drill_id,
        "kind": document.kind,
        "status": document.status,
        "ended_ms": document.ended_ms,
        "signed": document.signed,
        "signed_by": document.signed_by,
        "signed_ms": document.signed_ms,
        "source_cluster": document.source_cluster,
        "target_cluster": document.target_cluster,
        "has_findings": document.has_findings,
        "failed_checks": document.failed_checks,
        "summary": document.summary,
    }


@evidence.command(
    short_help="Write a page about the signed reports of a directory.",
    help="Write a page about the signed reports of a directory. Needs no pipeline file and no "
    "cluster.",
)
@click.argument("directory", metavar="DIR", type=_PATH)
@_KEYS
@options.value(
    "--since", "TIME", "End of the first drill listed: ISO 8601, or milliseconds since 1970."
)
@options.value(
    "--last",
    "N",
    "Maximum number of drills listed of each pipeline, the newest first.  [default: all]",
    type=click.IntRange(1),
)
@options.value("-o --output", "FILE", "File to write the HTML page to.", required=True, type=_PATH)
@options.json
def summary(
    directory: Path,
    keys: tuple[Path, ...],
    since: str | None,
    last: int | None,
    output: Path,
    as_json: bool,
) -> int:
    """Write the page; findings as for ``verify``, of all files of the directory."""
    try:
        since_ms = 0 if since is None else parse_instant(since)
    except ValueError as error:
        raise ConfigError(
            f"--since: {safe_text(since)} is not {error}", unchanged=_NOTHING_READ
        ) from error
    verified = _verify_directory(directory, keys)
    chosen = choose(verified, since_ms, last)
    title = "Signed reports of drills"
    if since is not None:
        title += f" since {moment(since_ms / 1000)}"
    page = render_html(make_summary(verified, chosen, title))
    write_file(output, page.encode(), "the summary could not be written to {path}: {why}")
    if as_json:
        drills = [one.drill_id for one in chosen]
        print_json({"file": str(output), "drills": drills, "problems": verified.problems})
    else:
        for problem in verified.problems:
            click.echo(problem, err=True)
        print_note(f"The summary of {counted(len(chosen), 'drill')} is in {safe_text(output)}.")
    return ExitCode.FINDINGS if verified.problems else ExitCode.OK


def _verify_directory(directory: Path, keys: Sequence[Path]) -> Verified:
    public = [read_public_key(key) for key in keys]
    try:
        documents = list_documents(directory)
    except OSError as error:
        raise ConfigError(
            f"the directory {safe_text(directory)} cannot be read: {error.strerror}",
            unchanged=_NOTHING_READ,
        ) from error
    if not documents:
        raise ConfigError(
            f"the directory {safe_text(directory)} has no signed report", unchanged=_NOTHING_READ
        )
    return verify_files(documents, public)


@evidence.command(
    short_help="Sign the report of a drill that has ended.",
    help="Sign the report of a drill that has ended, with the key of drill.sign, once it is proven "
    "that the drill wrote its record, and that the record is as its journal has it.",
)
@click.argument("drill_id", metavar="ID")
@options.file
@options.json
def sign(drill_id: str, files: tuple[str, ...], as_json: bool) -> int:
    """Sign a report that was not signed when the drill ended."""
    flow = load_flow(files)
    # It loads Kafka's clients, which verify does without.
    from k2ktui.drill.signing import sign_later

    path = sign_later(flow, files, drill_id, ask_passphrase())
    if as_json:
        print_json({"drill": drill_id, "file": str(path)})
    else:
        click.echo(safe_text(path))
    return ExitCode.OK
