"""The records around a group's position: masked until v, never in files; no cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.config.model import ConsoleSettings, PipelineConfig
from k2ktui.console.screens.groups import GroupScreen
from k2ktui.console.screens.partition import PartitionScreen
from k2ktui.console.screens.records import RecordsScreen
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.log.listing import LogEntry, OffsetState
from k2ktui.log.record import KafkaRecord
from k2ktui.sync.flow import Flow
from k2ktui.sync.records.pairs import GroupRecords, RecordListing, RecordPair, RecordPlace
from k2ktui.sync.verify.record_comparison import Comparison, ComparisonOutcome
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.pictures import compare_screen
from tests.support.console.views import usual

CONFIG = PipelineConfig.model_validate(
    {
        "name": "orders",
        "source": {"kafka": {"common": {"bootstrap.servers": "a:1"}}},
        "target": {"kafka": {"common": {"bootstrap.servers": "b:1"}}},
    }
)
FLOW = Flow(CONFIG)
SIZES = [(80, 24), (120, 35), (200, 60)]
AT = 1_795_262_300_000
SAME = Comparison(ComparisonOutcome.SAME)
HOSTILE = b"\x1b]0;title\x07\xff"


def entry(offset: int, value: bytes | None) -> LogEntry:
    headers = (("trace", b"1f00"),)
    record = KafkaRecord(offset, b"user-7", value, headers, AT + offset)
    return LogEntry(offset, offset, OffsetState.RECORD, record)


def pair(
    offset: int, value: bytes | None, copy: bytes | None = None, compared: Comparison = SAME
) -> RecordPair:
    there = entry(offset + 7, value if copy is None else copy)
    return RecordPair(entry(offset, value), there, ("payments", 0), compared)


ROW = GroupRow(
    *("billing", "payments", 0, "Stable", "", 41, "payments", 0, None, 48),
    *(Basis.EXACT, 0, 0, None),
)
PLACE = RecordPlace("payments", 0, 41)
LISTING = RecordListing(
    PLACE,
    "both",
    (
        pair(36, b'{"card": "4000-1234"}'),
        pair(37, HOSTILE),
        RecordPair(LogEntry(38, 39, OffsetState.ABORTED)),
        pair(40, b"value"),
    ),
    (
        RecordPair(LogEntry(41, 41, OffsetState.COMMIT_MARKER)),
        pair(42, b"1", b"2", Comparison(ComparisonOutcome.DIFFERENT, "value differs")),
        RecordPair(entry(43, None), why_no_copy="not replicated yet"),
        RecordPair(LogEntry(44, 44, OffsetState.NOT_WRITTEN)),
    ),
)
RECORDS = GroupRecords(LISTING)


async def opened(console: ConsoleDriver) -> None:
    await console.press("3")
    await console.app.push_screen(RecordsScreen(ROW, RECORDS))
    await console.settle()


def test_contents_are_masked_until_v_and_in_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def flow(console: ConsoleDriver) -> None:
        await opened(console)
        assert "4000" not in console.text and "user-7" not in console.text
        assert "trace" not in console.text and "masked; v shows them" in console.text
        await console.press("v")
        await console.sees("4000-1234", "user-7", "header trace: 1f00", "v masks them")
        # Whatever a record contains, it cannot control the terminal.
        assert "1b5d303b" in console.text and "\x1b" not in console.text
        await console.press("ctrl+s")
        assert "No screenshot was taken" in console.notices and not list(tmp_path.glob("*.svg"))
        await console.press("e", "enter")
        await console.sees("written:")
        written = "".join(path.read_text() for path in tmp_path.iterdir())
        assert "36" in written and "4000" not in written and "user-7" not in written
        screen = console.screen
        assert isinstance(screen, RecordsScreen) and "4000" not in screen.text_to_copy()

        await console.press("question_mark", "escape")
        assert "4000-1234" in console.text
        await console.press("1", "3")
        assert "4000" not in console.text and "masked; v shows them" in console.text
        await console.press("v")
        await console.sees("4000-1234")
        await console.press("v")
        assert "4000" not in console.text

    drive(flow, size=(120, 50), flow=FLOW, files=("p.yaml",))


def test_offsets_without_a_record_and_differences_are_said() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await opened(console)
        assert "commit on the source 41, on the target none" in console.text
        for text in (
            "38…39 of an aborted transaction",
            "41 commit marker",
            "different: value differs",
            "not replicated yet",
            "44 not written yet",
        ):
            assert text in console.text, text
        assert console.text.count("equal") == 3

    drive(flow, size=(120, 50), flow=FLOW, files=("p.yaml",))


def test_a_commit_at_another_record_shows_what_the_group_reads_there() -> None:
    place = RecordPlace("payments", 0, 70)
    at = ("payments", 0)
    there = RecordListing(
        place,
        "target",
        (RecordPair(None, entry(69, b"a"), at),),
        (RecordPair(None, LogEntry(70, 72, OffsetState.COMPACTED), at),),
    )
    row = replace(ROW, target_offset=70, divergence=22)

    async def flow(console: ConsoleDriver) -> None:
        await console.app.push_screen(RecordsScreen(row, GroupRecords(LISTING, there)))
        await console.settle()
        assert "on the target 70" in console.text and "is at another record" in console.text
        # Those read last are beside each other.
        assert "69" in console.line("40  ") and "70…72 compacted away" in console.text
        assert "equal" not in console.text
        await console.press("v")
        await console.sees("value (text): a")

    drive(flow, size=(120, 50), flow=FLOW, files=("p.yaml",))


@pytest.mark.parametrize(
    ("config", "pair_settings", "read_only", "words"),
    [
        ({"console": ConsoleSettings(show_records=False)}, {}, False, "showRecords is disabled"),
        ({}, {"read_only": True}, False, "readOnly is enabled"),
        ({}, {}, True, "started with --read-only"),
        ({}, {"environment": "production"}, False, "production; unlock it first"),
    ],
)
def test_who_may_not_see_contents(
    config: dict[str, object], pair_settings: dict[str, object], read_only: bool, words: str
) -> None:
    view = usual()
    view = replace(view, pair=replace(view.pair, **pair_settings))  # type: ignore[arg-type]

    async def flow(console: ConsoleDriver) -> None:
        await opened(console)
        await console.press("v")
        assert words in console.notices and "4000" not in console.text
        assert "key 6 B" in console.text

    drive(
        flow,
        view,
        size=(120, 50),
        flow=Flow(CONFIG.model_copy(update=config)),
        files=("p.yaml",),
        read_only=read_only,
    )


def test_enter_on_a_groups_partition_opens_them_and_o_the_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[GroupRow] = []

    def list_group_records(_flow: object, row: GroupRow, records: int) -> GroupRecords:
        asked.append(row)
        assert records == 3
        return RECORDS

    monkeypatch.setattr("k2ktui.console.screens.records.list_group_records", list_group_records)

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "enter")
        assert isinstance(console.screen, GroupScreen)
        await console.press("enter")
        await console.sees("36  ", "masked; v shows them")
        assert isinstance(console.screen, RecordsScreen)
        await console.press("n")
        await console.sees("36  ")
        assert len(asked) == 2
        await console.press("o")
        assert isinstance(console.screen, PartitionScreen)
        await console.press("q", "q")
        assert isinstance(console.screen, GroupScreen)
        await console.press("L")
        await console.sees("records of", "--before 3 --count 3")

    drive(flow, size=(160, 40), flow=FLOW, files=("p.yaml",))


def test_a_recording_has_no_records() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "enter", "enter")
        assert isinstance(console.screen, PartitionScreen)

    drive(flow)


@pytest.mark.slow
def test_it_looks_as_it_did() -> None:
    compare_screen(opened, usual(), "records", sizes=SIZES, flow=FLOW, files=("p.yaml",))
