"""``k2ktui compare``: compare every retained record of source and target."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from k2ktui.cli.terminal.notes import print_note, print_notes
from k2ktui.cli.terminal.options import file_option, json_option, load_pipeline_flow
from k2ktui.cli.terminal.tables import print_table
from k2ktui.config.scalars import parse_instant
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.errors import ConfigError, ExitCode, K2kError
from k2ktui.private_files import write_private
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from k2ktui.config.model import PipelineConfig
    from k2ktui.engine.compare.report import ComparisonReport

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_RATE = re.compile(r"([0-9]{1,12})\s*([kmg]?)b?", re.IGNORECASE)
_SHOWN = 200


@click.command(help="Compare every retained record of source and target, as far as it is copied.")
@file_option
@json_option
@click.option(
    "--topics", metavar="REGEX", help="Source topics to include; the whole name must match."
)
@click.option(
    "--since",
    metavar="TIME",
    help="Timestamp of the first records: ISO 8601, or milliseconds since 1970.",
)
@click.option(
    "--sample",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    metavar="SHARE",
    help="Share of the offsets to compare, in stretches of 2,000; the same ones each time.  "
    "[default: 1]",
)
@click.option(
    "--rate",
    metavar="BYTES",
    help="Most bytes per second to read, both sides together; with k, M or G.",
)
@click.option(
    "--resume/--restart",
    default=None,
    help="Continue a stopped comparison of the same choice, or discard what it has compared.  "
    "[default: refuse if there is one]",
)
@click.option(
    "--spark/--local",
    "in_spark",
    default=None,
    help="Compare in Spark tasks, or in this process.  [default: Spark for a million offsets, and "
    "for topics with a transform]",
)
@click.option(
    "--no-store", is_flag=True, help="Do not write the result to the pipeline's state topic."
)
@click.option(
    "-o",
    "--output",
    metavar="REPORT",
    type=click.Path(path_type=Path),
    help="Write the report to REPORT.json and REPORT.md.",
)
def command(
    files: tuple[str, ...],
    as_json: bool,
    topics: str | None,
    since: str | None,
    sample: float,
    rate: str | None,
    resume: bool | None,
    in_spark: bool | None,
    no_store: bool,
    output: Path | None,
) -> int:
    """Compare and print; findings if anything differs."""
    from k2ktui.compare.plan import ComparisonChoice
    from k2ktui.compare.run import ComparisonOptions, compare_pipeline

    since_ms = None if since is None else _parse_since(since)
    choice = ComparisonChoice(pattern_of("--topics", topics), topics or "", since_ms, sample)
    options = ComparisonOptions(choice, _parse_rate(rate), resume, in_spark)
    if output is not None:
        _check_output(output)
    flow = load_pipeline_flow(files)
    gc.freeze()  # the collector looked through all modules again and again: a tenth of the time
    with _told_when_stopped(), compare_pipeline(flow, options) as (report, done):
        is_stored = no_store or _store(flow.config, report)
        if output is not None:
            _write(report, output)
        if as_json:
            click.echo(json.dumps(report.as_json()))
        else:
            _print(report)
        if is_stored:
            done.forget()
    return int(ExitCode.FINDINGS if report.different else ExitCode.OK)


@contextmanager
def _told_when_stopped() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        print_note("stopped: with --resume, it continues")
        raise


def _store(config: PipelineConfig, report: ComparisonReport) -> bool:
    """Write the result to the state topic; False if a later run has to.

    What took hours is shown even if that fails.
    """
    from k2ktui.compare.run import keep_result

    unwritten = "the result was not written to the state topic"
    if config.read_only:
        print_note(f"the file has readOnly: {unwritten}")
        return True
    try:
        keep_result(config, report)
    except K2kError as error:
        print_note(f"{unwritten}: {error.message}")
        print_note("with --resume, it is written without reading the topics again")
        return False
    return True


def _parse_since(since: str) -> int:
    try:
        return parse_instant(since)
    except ValueError as error:
        raise ConfigError(f"--since: {safe_text(since)} is not {error}") from error


def _parse_rate(rate: str | None) -> float | None:
    if rate is None:
        return None
    parts = _RATE.fullmatch(rate.strip())
    if parts is None or not int(parts[1]):
        raise ConfigError(
            f"--rate: {safe_text(rate)} is not a number of bytes per second, such as 20M"
        )
    return float(int(parts[1]) * _UNITS[parts[2].lower()])


def _stem(output: Path) -> Path:
    return output.with_suffix("") if output.suffix in (".json", ".md") else output


def _check_output(output: Path) -> None:
    """Refuse a report that could not be written, before hours of reading."""
    if not output.absolute().parent.is_dir():
        raise ConfigError(
            f"-o: {safe_text(output.absolute().parent)} is not a directory",
            unchanged="Nothing was compared.",
        )


def _write(report: ComparisonReport, output: Path) -> None:
    from k2ktui.present.comparisons import markdown

    stem = _stem(output)
    texts = {".json": json.dumps(report.as_json(), indent=1) + "\n", ".md": markdown(report)}
    for suffix, text in texts.items():
        path = stem.with_name(stem.name + suffix)
        try:
            write_private(path, text.encode())
        except OSError as error:
            raise ConfigError(
                f"-o: {safe_text(path)} cannot be written ({error.strerror})",
                unchanged="What was compared is kept.",
                hint="Write the report elsewhere, with --resume and the same --topics, --since and "
                "--sample: nothing is read again.",
            ) from error
        print_note(f"report: {safe_text(path)}")


def _print(report: ComparisonReport) -> None:
    from k2ktui.present.comparisons import (
        finding_text,
        partition_columns,
        summary_lines,
        unread_text,
    )

    print_notes(report.notes)
    results = [result for _, result in sorted(report.results.items())]
    title = f"{safe_text(report.pipeline)}: records of source and target"
    print_table(title, partition_columns(report.differences), results, most=_SHOWN)
    for result in results:
        for finding in report.findings(result):
            click.echo(finding_text(result.source, finding))
        for finding in result.unproven_findings:
            click.echo(f"unproven: {finding_text(result.source, finding)}")
        if result.unread:
            click.echo(unread_text(result))
    for line in summary_lines(report):
        click.echo(line)
    if not report.has_records:
        print_note(
            "no record was compared: the chosen partitions have none, or none from --since on"
        )
