"""``k2ktui records``, ``compare`` and ``verify``: records of both clusters side by side."""

from __future__ import annotations

import gc
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import access_to, load_flow, load_pipeline_flow, write_file
from k2ktui.cli.terminal.notes import print_note, print_notes
from k2ktui.cli.terminal.tables import note_pair, print_json, print_table, read_beside
from k2ktui.config.scalars import parse_instant
from k2ktui.engine.access import require_shown
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.errors import ConfigError, ExitCode, K2kError
from k2ktui.present.columns import Column, text_column
from k2ktui.text import counted, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.config.model import PipelineConfig
    from k2ktui.engine.compare.report import ComparisonReport
    from k2ktui.log.record import KafkaRecord
    from k2ktui.sync.operations import VerificationReport
    from k2ktui.sync.records.contents import ContentFormat, ShownRecord
    from k2ktui.sync.records.pairs import RecordListing, RecordPair
    from k2ktui.sync.records.schema_decoder import SchemaDecoder
    from k2ktui.sync.verify.verification import ContentCheck

F = TypeVar("F", bound=Callable[..., Any])
_MOST = 1000
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_RATE = re.compile(r"([0-9]{1,12})\s*([kmg]?)b?", re.IGNORECASE)
_SHOWN = 200
_REASONS = 3
_FORMATS = ("auto", "schema", "json", "text", "hex")


@click.command(help="List records from a position on, and their copies on the target.")
@options.reading
@options.choice(
    "--side",
    ["source", "target", "both"],
    "Cluster whose records are listed; with target, the position is one on the target.",
    "both",
)
@options.number("--count", "N", 1, 10, "Number of records.", _MOST)
@options.number("--before", "N", 0, 0, "Number of records before the position, too.", _MOST)
@options.flag("--show", "Print keys, values and headers instead of their sizes alone.")
@options.choice("--format wanted", _FORMATS, "Format of contents with --show.  [default: auto]")
@options.flag("--unlock", "Allow --show although the pipeline's environment is production.")
@options.seconds("--timeout", 30.0, "Maximum time in seconds for reading the records.")
@click.argument("position", metavar="TOPIC:PARTITION@OFFSET")
def records(
    files: tuple[str, ...],
    as_json: bool,
    side: Any,
    count: int,
    before: int,
    show: bool,
    wanted: str | None,
    unlock: bool,
    timeout: float,
    position: str,
) -> int:
    """List and print; findings if a copy differs or is lost."""
    from k2ktui.engine.moves.positions_text import parse_place
    from k2ktui.present.records import listing_object
    from k2ktui.sync.records.contents import ContentFormat
    from k2ktui.sync.records.pairs import RecordPlace, list_records

    if not show and (wanted or unlock):
        raise ConfigError(f"{'--format' if wanted else '--unlock'} is for --show, which is missing")
    at, offset = parse_place(position)
    flow = load_flow(files)
    config = flow.config
    if show:
        require_shown(access_to(config, unlock=unlock), enabled=config.console.show_records)
    listing = list_records(
        flow, RecordPlace(at.topic, at.partition, offset), side, before=before, count=count,
        timeout=timeout,
    )  # fmt: skip
    with ExitStack() as stack:
        contents = _Contents(config, ContentFormat(wanted or "auto"), stack) if show else None
        if as_json:
            show_one = None if contents is None else contents.show
            print_json(listing_object(config.name, listing, show_one))
        else:
            print_notes(listing.notes)
            _print_listing(config.name, listing, contents)
    return int(ExitCode.FINDINGS if any(p.is_wrong for p in listing.pairs) else ExitCode.OK)


class _Contents:
    """Shows what is in records of either cluster, with its registry if it has one."""

    def __init__(self, config: PipelineConfig, wanted: ContentFormat, stack: ExitStack) -> None:
        from k2ktui.sync.records.schema_decoder import open_decoders

        self._wanted = wanted
        self._decoders: dict[str, SchemaDecoder] = stack.enter_context(open_decoders(config))
        if wanted == "schema" and not self._decoders:
            raise ConfigError(
                "--format schema needs a schema registry, and the file names none",
                unchanged="Nothing was shown.",
                hint="Set registry.config under source or target.",
            )

    def show(self, record: KafkaRecord, side: str) -> ShownRecord:
        """Return the contents of a cluster's record."""
        from k2ktui.sync.records.contents import show_record

        return show_record(record, self._wanted, self._decoders.get(side))


def _print_listing(pipeline: str, listing: RecordListing, contents: _Contents | None) -> None:
    from k2ktui.present.records import pair_columns

    if contents is not None:
        for pair in listing.pairs:
            _print_pair(pair, listing, contents)
        return
    place = listing.place
    with_source, with_target = listing.side != "target", listing.side != "source"
    name = safe_text(f"{place.topic}:{place.partition}@{place.offset}")
    where = "" if with_source else " on the target"
    columns = pair_columns(with_source=with_source, with_target=with_target)
    print_table(f"{safe_text(pipeline)}: {name}{where}", columns, listing.pairs)


def _print_pair(pair: RecordPair, listing: RecordListing, contents: _Contents) -> None:
    """Print a record with its contents, and its copy's where the two are not equal."""
    from k2ktui.present.records import content_lines, offsets_text, sizes_text, time_text

    place = listing.place
    is_equal = pair.result == "equal"
    for side, entry in (("source", pair.source), ("target", pair.target)):
        if entry is None:
            continue
        at = pair.target_partition if side == "target" else (place.topic, place.partition)
        assert at is not None
        where = f"{side} {safe_text(at[0])}:{at[1]}@{offsets_text(entry)}"
        record = entry.record
        if record is None:
            click.echo(f"{where}: {safe_text(entry.meaning)}")
            continue
        is_repeated = side == "target" and is_equal
        click.echo(
            f"{where}: {time_text(record)}, {sizes_text(record)}{', equal' if is_repeated else ''}"
        )
        if not is_repeated:
            for name, text in content_lines(record, contents.show(record, side)):
                click.echo(f"    {name}: {text}")
    if listing.side == "both" and pair.source and pair.source.record and not is_equal:
        click.echo(f"  {safe_message(pair.result)}")


@click.command(help="Compare every retained record of source and target, as far as it is copied.")
@options.reading
@options.value("--topics", "REGEX", "Source topics to include; the whole name must match.")
@options.value(
    "--since", "TIME", "Timestamp of the first records: ISO 8601, or milliseconds since 1970."
)
@options.value(
    "--sample",
    "SHARE",
    "Share of the offsets to compare, in stretches of 2,000; the same ones each time.  "
    "[default: 1]",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
)
@options.value(
    "--rate", "BYTES", "Most bytes per second to read, both sides together; with k, M or G."
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
@options.flag("--no-store", "Do not write the result to the pipeline's state topic.")
@options.value(
    "-o --output",
    "REPORT",
    "Write the report to REPORT.json and REPORT.md.",
    type=click.Path(path_type=Path),
)
def compare(
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

    try:
        since_ms = None if since is None else parse_instant(since)
    except ValueError as error:
        raise ConfigError(f"--since: {safe_text(since)} is not {error}") from error
    choice = ComparisonChoice(pattern_of("--topics", topics), topics or "", since_ms, sample)
    options = ComparisonOptions(choice, _parse_rate(rate), resume, in_spark)
    if output is not None and not output.absolute().parent.is_dir():  # before hours of reading
        raise ConfigError(
            f"-o: {safe_text(output.absolute().parent)} is not a directory",
            unchanged="Nothing was compared.",
        )
    flow = load_pipeline_flow(files)
    gc.freeze()  # the collector looked through all modules again and again: a tenth of the time
    with _told_when_stopped(), compare_pipeline(flow, options) as (report, done):
        is_stored = no_store or _store(flow.config, report)
        if output is not None:
            _write_report(report, output)
        if as_json:
            print_json(report.as_json())
        else:
            _print_report(report)
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


def _parse_rate(rate: str | None) -> float | None:
    if rate is None:
        return None
    parts = _RATE.fullmatch(rate.strip())
    if parts is None or not int(parts[1]):
        raise ConfigError(
            f"--rate: {safe_text(rate)} is not a number of bytes per second, such as 20M"
        )
    return float(int(parts[1]) * _UNITS[parts[2].lower()])


def _write_report(report: ComparisonReport, output: Path) -> None:
    from k2ktui.present.comparisons import markdown

    stem = output.with_suffix("") if output.suffix in (".json", ".md") else output
    texts = {".json": json.dumps(report.as_json(), indent=1) + "\n", ".md": markdown(report)}
    for suffix, text in texts.items():
        path = stem.with_name(stem.name + suffix)
        write_file(
            path,
            text.encode(),
            "-o: {path} cannot be written ({why})",
            unchanged="What was compared is kept.",
            hint="Write the report elsewhere, with --resume and the same --topics, --since and "
            "--sample: nothing is read again.",
        )
        print_note(f"report: {safe_text(path)}")


def _print_report(report: ComparisonReport) -> None:
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


@click.command(help="Compare each group's next record, and sampled ranges, on both clusters.")
@options.reading
@options.value("--sample", "N", "Number of sampled ranges.", default=20, show_default=True)
@click.option(
    "--seed",
    default=0,
    show_default=True,
    help="Seed of the sample; the same seed selects the same ranges.",
)
@options.flag("--translated", "Compare at the translated offsets instead of the committed ones.")
@options.value("--plan plan_file", "FILE", "Compare at the offsets of a plan file, applied or not.")
@options.group
@options.seconds("--timeout", 120.0, "Maximum time in seconds for the comparison.")
def verify(
    files: tuple[str, ...],
    as_json: bool,
    sample: int,
    seed: int,
    translated: bool,
    plan_file: str | None,
    group: str | None,
    timeout: float,
) -> int:
    """Verify and print; findings if a record differs, not if a group only reads records again."""
    from k2ktui.sync.moves.plan_files import read_plan
    from k2ktui.sync.operations import verify_content

    if plan_file and translated:
        raise ConfigError("--plan and --translated cannot be combined")
    plan = read_plan(Path(plan_file), now=0) if plan_file else None
    flow = load_flow(files)
    pair = read_beside(flow.config)
    proof = verify_content(
        flow,
        group=pattern_of("--group", group),
        translated=translated,
        plan=plan,
        sample=sample,
        seed=seed,
        timeout=timeout,
    )
    result = proof.verification
    note_pair(flow.config, pair())
    if as_json:
        print_json({"pipeline": flow.config.name, **verification_object(proof)})
    else:
        print_notes(proof.notes)
        show_verification(flow.config.name, proof, sampled=sample > 0)
    different = result.positions.different + result.ranges.different
    return int(ExitCode.FINDINGS if different else ExitCode.OK)


def verification_object(proof: VerificationReport) -> dict[str, Any]:
    """Return the verification as ``k2ktui verify --json`` prints it."""
    return {
        **proof.verification.as_json(),
        "not_compared": [
            {"group": row.group, "topic": row.topic, "partition": row.partition, "reason": why}
            for row, why in proof.unasked
        ],
    }


def show_verification(pipeline: str, proof: VerificationReport, *, sampled: bool) -> None:
    """Print the differences, and the totals; ``sampled`` if records were compared too."""
    from k2ktui.sync.verify.record_comparison import ComparisonOutcome

    result = proof.verification
    notable = [
        check for check in result.checks if check.outcome is not ComparisonOutcome.SAME or check.why
    ]
    if notable:
        title = f"{safe_text(pipeline)}: differences and records that could not be compared"
        print_table(title, _CHECKS, notable, most=_SHOWN)
    for row, why in proof.unasked[:_SHOWN]:
        where = safe_text(f"{row.group}: {row.topic}-{row.partition}")
        click.echo(f"not compared: {where}: {safe_message(why)}", err=True)
    for name, totals, reasons in (
        ("next records of groups", result.positions, result.unchecked_positions),
        ("sampled records", result.records, result.unchecked_records),
    ):
        again = f"{totals.rereads:,} re-read, " if totals.rereads else ""
        click.echo(
            f"{name}: {totals.same:,} the same, {again}{totals.different:,} different, "
            f"{totals.could_not_check:,} could not be checked{_reasons_text(reasons)}"
        )
    if proof.unasked:
        reasons = Counter(why for _, why in proof.unasked)
        click.echo(
            f"positions of groups that were not compared: {len(proof.unasked):,}"
            f"{_reasons_text(reasons)}"
        )
    if not result.has_compared:
        print_note("no record was compared: this says nothing about the copies")
    if sampled and result.sampled_from < result.mapped:
        click.echo(
            f"The sample is of the newest {result.sampled_from:,} of "
            f"{counted(result.mapped, 'mapped record')}: older ranges are not in memory "
            "(offsetMapping.retention.count)."
        )


def _reasons_text(reasons: Counter[str]) -> str:
    """Return the most frequent reasons with their counts."""
    if not reasons:
        return ""
    most = [f"{count:,} {safe_message(why)}" for why, count in reasons.most_common(_REASONS)]
    rest = reasons.total() - sum(count for _, count in reasons.most_common(_REASONS))
    return f" ({'; '.join([*most, *([f'{rest:,} for other reasons'] if rest else [])])})"


_CHECKS: tuple[Column[ContentCheck], ...] = (
    text_column("check", lambda check: check.what, left=True),
    text_column("outcome", lambda check: str(check.outcome), left=True),
    text_column("reason", lambda check: safe_message(check.why), left=True),
)
