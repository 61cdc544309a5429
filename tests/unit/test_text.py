"""Texts for people: nothing moves the terminal, and no two names look alike for want of a shape."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from k2ktui.engine.moves.apply import results_text, undo_text
from k2ktui.replication.reports.events import Progress, Started, report_text
from k2ktui.text import first_lines, list_names, safe_message, safe_text

_ESCAPE = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})")


def read_back(shown: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1] or match[2] or match[3], 16)), shown)


@pytest.mark.parametrize("category", ["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"])
def test_every_character_of_these_categories_is_escaped(category: str) -> None:
    points = range(sys.maxunicode + 1)
    chars = [chr(p) for p in points if unicodedata.category(chr(p)) == category and p != 0x20]
    # Of the large ones a part is enough.
    for char in chars[:2000]:
        assert re.fullmatch(r"a\\[xuU][0-9a-f]+b", safe_text(f"a{char}b")), ascii(char)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("orders", "or\u200bders"),
        ("orders", "orders\u00ad"),
        ("app\u200b", "app\\u200b"),
        ("app\\u200b", "app\\x5cu200b"),
        ("app ", "app\\x20"),
        ("app\U000e0061", "app\\U000e0061"),
        ("orders", "orders "),
        ("orders", "\ufefforders"),
        ("a b", "a\u00a0b"),
        ("a b", "a\u2003b"),
        ("caf\u00e9", "cafe\u0301"),
        ("\u00c5", "\u212b"),
        ("\uac00", "\u1100\u1161"),
        ("\u1eaf", "a\u0306\u0301"),
        ("a\ufe0f", "a"),
        ("a\U000e0101", "a"),
        ("a\u034f", "a"),
        ("\u3164", " "),
        ("a\u2800", "a"),
        ("a\U000e0061", "a"),
        ("a\u202eb\u202c", "ab"),
        ("\ud800", "\ud801"),
        ("a" + "\u0335" * 9, "a" + "\u0335" * 8),
    ],
)
def test_names_that_differ_look_different(one: str, other: str) -> None:
    shown = {safe_text(one), safe_text(other)}
    assert len(shown) == 2
    assert all(text.isprintable() and unicodedata.is_normalized("NFC", text) for text in shown)


@pytest.mark.parametrize(
    "name",
    [
        "orders",
        "caf\u00e9",
        "日本語",
        "العربية",
        "สวัสดี",
        "नमस्ते",
        "a b",
        "DOMAIN\\user",
        "C:\\x\\users",
        "👩",
        " x",
    ],
)
def test_what_can_be_seen_stays(name: str) -> None:
    assert safe_text(name) == name


# What looks like an escape, or a part of one, is what could be mistaken for one.
_PIECES = st.sampled_from(
    ["\\", "\\x1b", "\\u200b", "\\U0001f469", "x", "u", "20", "0", "\u200b", " "]
)


@given(st.lists(st.text(max_size=3) | _PIECES, max_size=8).map("".join))
@example("\ud800\U0010ffff\u0301\u0301")
@example("q\u200b\u0307")
@example("app\u200b")
@example("app\\u200b")
@example("app\\x5cu200b")
@example("\\x5\u0301")
@example("\\x20")
def test_what_is_shown_names_one_text(text: str) -> None:
    """So no two names are shown alike."""
    shown = safe_text(text)
    assert read_back(shown) == text
    assert shown.isprintable() and unicodedata.is_normalized("NFC", shown)
    assert safe_message(shown) == shown


@given(st.text(max_size=12))
def test_a_message_is_escaped_once(text: str) -> None:
    shown = safe_message(text)
    assert safe_message(shown) == shown
    assert shown.isprintable() and unicodedata.is_normalized("NFC", shown)


def test_a_limit() -> None:
    assert safe_text("abcdef", 4) == "abc…"
    assert safe_text("abcd", 4) == "abcd"
    assert safe_text("\x1b" * 9, 6) == "\\x1b\\…"


def test_results_of_changes_are_sentences() -> None:
    counts = {"applied": 3, "refused": 1}
    assert results_text(counts) == "3 rows applied, 1 row refused"
    assert undo_text(counts) == "3 rows undone, 1 row refused."
    assert undo_text({"applied": 1}) == "1 row undone."


def test_no_sentence_counts_one_in_the_plural() -> None:
    started = report_text(Started("orders", 1, 1, 1, 2.0))
    assert "1 partition in 1 slot, ready" in started
    more = report_text(Started("orders", 1, 2, 3, 0.5, is_more=True))
    assert more == "orders: term 1, now 3 partitions in 2 slots"
    progress = report_text(Progress(1, 1.0, 1, 90, 0, 1, 0.1, 0.1, 0.0, 1, 0, None))
    assert "1 record, " in progress and "1 transaction, " in progress
    assert progress.endswith("1 partition")


@pytest.mark.parametrize(
    ("count", "text"), [(0, ""), (1, "a0"), (3, "a0, a1, a2"), (1004, "a0, a1, a2 and 1,001 more")]
)
def test_first_names_and_the_number_of_the_others(count: int, text: str) -> None:
    assert list_names([f"a{n}" for n in range(count)], 3) == text


def test_listed_names_are_safe() -> None:
    assert list_names(["a\x1b"], 3) == "a\\x1b"


def test_first_lines_and_the_number_of_the_others() -> None:
    lines = [f"a{n}" for n in range(1_005)]
    assert first_lines(lines, 2) == ["a0", "a1", "and 1,003 more"]
    assert first_lines(lines[:2], 2) == ["a0", "a1"]
    assert first_lines([], 2) == []
