"""``k2ktui transform``: what transforms do to records; nothing is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import click

from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import load_pipeline
from k2ktui.cli.terminal.notes import print_note
from k2ktui.cli.terminal.tables import print_json, print_table
from k2ktui.log.record import KafkaRecord
from k2ktui.present.columns import Column, text_column
from k2ktui.replication.preview_records import (
    Preview,
    PreviewOutcome,
    mask_preview,
    mask_record,
    plain_bytes,
    preview_json,
)
from k2ktui.replication.transform_preview import infer_schema, preview_transform
from k2ktui.runtime.spark_extra import require_transform_packages
from k2ktui.text import counted, safe_message, safe_text

_LONGEST = 120

topic_option = options.value("--topic", "TOPIC", "Source topic to read.", required=True)
limit_option = options.number(
    "--limit", "COUNT", 1, 10, "Number of records to read, the newest ones.", 1000
)

mask_option = options.flag("--mask", "Replace letters and digits of keys, values and headers.")


@click.group(help="Show what transforms do to records, without writing anything.")
def transform() -> None:
    """Docs: ``docs/transforms.md``."""


@transform.command(help="Show records of a topic before and after its transform.")
@options.file
@topic_option
@limit_option
@mask_option
@options.json
def preview(files: tuple[str, ...], topic: str, limit: int, mask: bool, as_json: bool) -> None:
    """Read the source, transform on this host, and print."""
    require_transform_packages("k2ktui transform preview")
    result = preview_transform(load_pipeline(files), topic, limit)
    if mask:
        result = mask_preview(result)
    if as_json:
        print_json(preview_json(result), indent=2)
        return
    if not result.rows:
        click.echo(f"{safe_text(topic)} has no records.")
        return
    title = f"{safe_text(result.topic)} to {safe_text(result.target)}: {safe_message(result.does)}"
    print_table(title, _COLUMNS, list(_lines(result)))
    counts = [
        f"{sum(row.outcome is outcome for row in result.rows)} {outcome}"
        for outcome in PreviewOutcome
        if any(row.outcome is outcome for row in result.rows)
    ]
    click.echo(f"{counted(len(result.rows), 'record')}: {', '.join(counts)}. Nothing was written.")


@transform.command(help="Print a JSON schema for decode, inferred from the newest records.")
@options.file
@topic_option
@limit_option
@options.flag("--key keys", "Infer the schema of keys instead of values.")
@mask_option
@options.json
def schema(
    files: tuple[str, ...], topic: str, limit: int, keys: bool, mask: bool, as_json: bool
) -> None:
    """Read the source, infer the schema on this host, and print it as YAML, after its sample."""
    require_transform_packages("k2ktui transform schema")
    part = "key" if keys else "value"
    inferred = infer_schema(load_pipeline(files), topic, limit, part=part)
    sample = [(at, mask_record(record) if mask else record) for at, record in inferred.sample]
    if as_json:
        decode = {"schema": inferred.ddl, **({"schemaId": "enabled"} if inferred.has_id else {})}
        shown_sample = [
            {
                "topic": at.topic,
                "partition": at.partition,
                "offset": record.offset,
                part: plain_bytes(record.key if keys else record.value),
            }
            for at, record in sample
        ]
        print_json({"decode": {part: {"json": decode}}, "sample": shown_sample})
        return
    for source, shown in sample:
        text = _text(shown.key if keys else shown.value)
        print_note(f"sample: {source} offset {shown.offset}: {text}")
    count = counted(len(inferred.sample), part)
    print_note(f"inferred from {count}; fields that none of them has are lost")
    more = ", schemaId: enabled" if inferred.has_id else ""
    click.echo(f"decode: {{{part}: {{json: {{schema: {json.dumps(inferred.ddl)}{more}}}}}}}")


@dataclass(frozen=True, slots=True)
class _Line:
    record: str
    part: str
    before: str
    after: str


def _lines(result: Preview) -> Iterator[_Line]:
    for row in result.rows:
        before = _parts(row.before)
        after = _parts(row.after) if row.after is not None else {}
        place = f"{row.source} {row.before.offset}"
        reason = f"({row.outcome}: {row.step})" if row.step else ""
        if row.target:
            place = f"{place} to {row.target}"
        for part, text in before.items():
            if part == "headers" and not text and not after.get(part):
                continue
            yield _Line(safe_text(place), part, text, after.get(part, "") or reason)
            place = reason = ""
        for further in row.further:
            for part, text in _parts(further).items():
                if part != "headers" or text:
                    yield _Line("", part, "", text)


def _parts(record: KafkaRecord) -> dict[str, str]:
    headers = ", ".join(f"{name}={_text(value)}" for name, value in record.headers)
    return {
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": safe_text(headers, _LONGEST),
    }


def _text(data: bytes | None) -> str:
    if data is None:
        return "null"
    try:
        return safe_text(data.decode(), _LONGEST)
    except UnicodeDecodeError:
        return f"{len(data)} bytes: {data[:16].hex()}"


_COLUMNS: tuple[Column[_Line], ...] = (
    text_column("record", lambda line: line.record, left=True),
    text_column("part", lambda line: line.part, left=True),
    text_column("before", lambda line: line.before, left=True),
    text_column("after", lambda line: line.after, left=True),
)
