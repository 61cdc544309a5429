"""The preview of a transform: masked at first, no record in files, canceled at once; no Spark."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.config.replication import Replication
from k2ktui.config.transform_rules import TransformRule
from k2ktui.console.preview_process import PreviewProcess
from k2ktui.console.screens.preview import PreviewScreen
from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import K2kError
from k2ktui.log.record import KafkaRecord
from k2ktui.present.previews import compare_records
from k2ktui.replication.preview_records import (
    Preview,
    PreviewOutcome,
    PreviewRow,
    parse_preview,
    preview_json,
)
from k2ktui.sync.flow import PipelineFlow
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.pictures import compare_screen
from tests.support.console.views import usual

RULE = TransformRule.model_validate({"topics": "payments", "filter": "value IS NOT NULL"})
CONFIG = PipelineConfig.model_construct(
    name="orders", replication=Replication.model_construct(transform=(RULE,))
)
FLOW = PipelineFlow(CONFIG)
AT = 1_795_262_300_000


def row(
    offset: int,
    before: bytes | None,
    after: bytes | None = None,
    outcome: PreviewOutcome = PreviewOutcome.COPIED,
    step: str = "",
) -> PreviewRow:
    source = SourcePartition("payments", offset % 2)
    headers = (("trace", b"1f\x00"), ("site", None))
    record = KafkaRecord(offset, b"user-7", before, headers, AT + offset)
    copied = outcome is PreviewOutcome.COPIED
    copy = KafkaRecord(offset, b"user-7", after, headers, AT + offset) if copied else None
    return PreviewRow(source, record, copy, outcome, step)


CARD = b'{"id": 7, "card": "4000-1234", "note": "\\u001b[31mred"}'
MASKED = b'{"id":7,"card":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}'
ROWS = (
    row(40, CARD, MASKED),
    row(41, b'{"id": 8}', outcome=PreviewOutcome.LEFT_OUT, step="filter"),
    row(42, b'{"id": ', outcome=PreviewOutcome.STOPS, step="decode.value"),
    row(43, None, outcome=PreviewOutcome.SKIPPED, step="set value.id"),
    row(44, b"\xff\x00" * 40, b"\x1b]0;title\x07" + "\u202e".encode()),
)
FOUND = Preview("payments", "payments.copy", "decodes value (json), sets value.card", ROWS)


async def opened(console: ConsoleDriver) -> None:
    await console.press("2")
    await console.app.push_screen(PreviewScreen("payments", FOUND))
    await console.settle()


def test_contents_are_masked_until_m_and_again_when_the_screen_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def flow(console: ConsoleDriver) -> None:
        await opened(console)
        assert "value.card" in console.line("9999-9999")
        assert "4000" not in console.text and "user" not in console.text
        assert "masked; m shows them" in console.text
        await console.press("ctrl+s")
        (picture,) = tmp_path.glob("*.svg")
        assert "4000" not in picture.read_text()
        picture.unlink()

        await console.press("m")
        assert "9f86d081" in console.line("4000-1234") and "user-7" in console.text
        # Whatever a record contains, it cannot control the terminal.
        assert "\\x1b[31mred" in console.line("value.note")
        await console.press("ctrl+s")
        assert "No screenshot was taken" in console.notices and not list(tmp_path.glob("*.svg"))
        await console.press("e", "enter")
        await console.sees("written:")
        written = "".join(path.read_text() for path in tmp_path.iterdir())
        assert "9999-9999" in written and "4000" not in written and "user-7" not in written

        await console.press("question_mark", "escape")
        assert "4000-1234" in console.text
        await console.press("1", "2")
        assert "9999-9999" in console.text and "4000" not in console.text

    drive(flow, size=(100, 40), flow=FLOW, files=("p.yaml",))


def test_what_happens_to_each_record_and_why() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await opened(console)
        assert "5 records: 2 copied, 1 left out" in console.text
        await console.press("m")
        for texts in (
            ("left out: filter", "value.id"),
            ("stops the partition: decode.value", '{"id":\\x20'),
            ("skipped: set value.id", "null"),
            ("80 bytes: ff00ff00", "\\x1b]0;title\\x07\\u202e"),
        ):
            await console.press("down")
            assert all(text in console.text for text in texts), console.text
        await console.press("z")
        assert "41" not in console.line("stops the partition")

    drive(flow, size=(120, 40), flow=FLOW, files=("p.yaml",))


def test_a_long_record_is_scrolled_and_cut() -> None:
    long = row(40, b"x" * 5_000, b'"' + b"[" * 9_000)
    (_, line, *_, last) = compare_records(long, long, 80)
    assert "user-7" in line[1].text
    preview = Preview("payments", "payments", "", (long,))

    async def flow(console: ConsoleDriver) -> None:
        await console.app.push_screen(PreviewScreen("payments", preview))
        await console.settle()
        top = console.line("xxxx")
        assert "before" in console.text
        await console.press(*"JJJ")
        assert "before" not in console.text and console.line("xxxx")[20:] != top
        await console.press(*"KKK")
        assert "before" in console.text

    drive(flow, flow=FLOW, files=("p.yaml",))
    assert any("1,000 more characters" in cell.text for cell in last) or "header" in last[0].text


def test_the_key_explains_why_there_is_nothing_to_preview() -> None:
    async def plain(console: ConsoleDriver) -> None:
        await console.press("2", "x")
        assert "the pipeline file has no replication.transform" in console.notices

    drive(plain, flow=PipelineFlow(PipelineConfig.model_construct(name="orders")))

    async def recording(console: ConsoleDriver) -> None:
        await console.press("2", "x")
        assert "this is a recording" in console.notices

    drive(recording)

    async def other_topic(console: ConsoleDriver) -> None:
        await console.press("2")
        console.screen.query_one("#partitions", Grid).select(("clicks", 0))
        await console.press("x")
        assert "changes the records of clicks" in console.notices

    drive(other_topic, flow=FLOW, files=("p.yaml",))


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "pyarrow" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)

    async def flow(console: ConsoleDriver) -> None:
        await console.press("2")
        console.screen.query_one("#partitions", Grid).select(("payments", 0))
        await console.press("x")
        await console.sees("not installed: pyarrow", "'.[spark,transform]'")

    drive(flow, flow=FLOW, files=("p.yaml",), size=(120, 30))


def test_a_command_that_fails_explains_why_and_can_be_repeated(tmp_path: Path) -> None:
    file = tmp_path / "absent.yaml"

    async def flow(console: ConsoleDriver) -> None:
        await console.app.push_screen(PreviewScreen("payments"))
        await console.sees("The preview failed; n tries again.", "absent.yaml", "Fix: ")
        assert "k2ktui: " not in console.text
        await console.press("n")
        await console.sees("The preview failed")
        await console.press("q", "L")
        await console.sees("preview of the transform of payments")

    drive(flow, size=(120, 30), flow=FLOW, files=(str(file),))


def test_a_preview_that_is_canceled_does_not_start(tmp_path: Path) -> None:
    process = PreviewProcess(("p.yaml",), "payments", 1)
    process.cancel()
    with pytest.raises(K2kError, match="canceled"):
        process.run()


def test_a_preview_survives_its_text() -> None:
    assert parse_preview(json.dumps(preview_json(FOUND))) == FOUND


def test_where_expressions_send_records_is_shown() -> None:
    sent = replace(ROWS[0], target="pay\x1bments-eu-3")
    preview = replace(FOUND, rows=(sent, *ROWS[1:]))

    async def flow(console: ConsoleDriver) -> None:
        await console.app.push_screen(PreviewScreen("payments", preview))
        await console.settle()
        assert "to pay\\x1bments-eu-3" in console.line("● copied")

    drive(flow, flow=FLOW, files=("p.yaml",))
    assert parse_preview(json.dumps(preview_json(preview))) == preview


@pytest.mark.slow
def test_it_looks_as_it_did() -> None:
    compare_screen(opened, usual(), "preview", flow=FLOW, files=("p.yaml",))
