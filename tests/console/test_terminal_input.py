"""What a terminal sends, whole and in pieces: keys are passed on, everything else is not."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual._xterm_parser import XTermParser

from k2ktui.console.terminal_input import TerminalInput

ESCAPE_S = 0.1

# Replies of xterm, kitty, foot, WezTerm, iTerm, tmux and GNU screen to other programs' questions.
REPLIES = {
    "DA1": b"\x1b[?62;1;4c",
    "DA1 of the console": b"\x1b[?6c",
    "DA2": b"\x1b[>41;354;0c",
    "DA3": b"\x1bP!|7E565445\x1b\\",
    "XTVERSION": b"\x1bP>|tmux 3.4\x1b\\",
    "kitty's flags": b"\x1b[?31u",
    "foreground": b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
    "background": b"\x1b]11;rgb:0000/0000/0000\x07",
    "palette": b"\x1b]4;1;rgb:cdcd/0000/0000\x1b\\",
    "XTGETTCAP": b"\x1bP1+r544e=787465726d\x1b\\",
    "XTGETTCAP, none": b"\x1bP0+r\x1b\\",
    "DECRQSS": b"\x1bP1$r0m\x1b\\",
    "clipboard": b"\x1b]52;c;ZXBxdQ==\x07",
    "title": b"\x1b]lprocess\x1b\\",
    "status": b"\x1b[0n",
    "color scheme": b"\x1b[?997;1n",
    "text area": b"\x1b[8;40;120t",
    "cell size": b"\x1b[6;16;8t",
    "mode, with more digits": b"\x1b[?2026;10$y",
    "pixels": b"\x1b[4;768;1024t",
    "sixel": b"\x1b[?1;0;256S",
    "kitty's graphics": b"\x1b_Gi=31;OK\x1b\\",
    "modifyOtherKeys": b"\x1b[>4;1m",
}
# Each ended the console: no UTF-8, or a number that Textual does not expect.
FAULTS = {
    "Latin-1": b"\xe9",
    "mouse past column 95": b"\x1b[M \xa0!",
    "8-bit Alt": b"\xe1",
    "shifted key": b"\x1b[97:65;2u",
    "released": b"\x1b[97;1:3u",
    "no character": b"\x1b[9999999999u",
    "surrogate": b"\x1b[55296u",
    "text": b"\x1b[97;;99999999u",
    "large modifiers": b"\x1b[97;99999999999999999999u",
    "overlong UTF-8": b"\xc0\xaf",
    "cut UTF-8": b"\xe2\x82",
}
KEYS = {
    "a": ["a"],
    "ü": ["ü"],
    "\x1b[A": ["up"],
    "\x1b[1;5C": ["ctrl+right"],
    "\x1bOP": ["f1"],
    "\x1b[15~": ["f5"],
    "\x1b[Z": ["shift+tab"],
    "\x1b[97;5u": ["ctrl+a"],
    "\x1b[27u": ["escape"],
    "\x1bx": ["alt+x"],
    "\x1bb": ["ctrl+left"],
    "\x1b[[A": ["f1"],
    "\r": ["enter"],
}


def keys_of(parts: list[bytes], pause_s: float = 0.0) -> list[str]:
    """Return the keys that Textual reads of what arrives in these parts."""
    typed, parser, now = TerminalInput(ESCAPE_S), XTermParser(), 0.0
    keys: list[str] = []
    for part in [*parts, b"", b""]:
        text = typed.feed(part, now) if part else typed.tick(now)
        for event in parser.feed(text) if text else ():
            if isinstance(event, events.Key):
                keys.append(event.key)
        passed_s = pause_s if part else 5.0
        if passed_s > ESCAPE_S and parser._timeout_time is not None:  # noqa: SLF001
            parser._timeout_time = 0.0  # noqa: SLF001 - its clock is the real one
            keys += [event.key for event in parser.tick() if isinstance(event, events.Key)]
        now += passed_s
    return keys


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = [0, *sorted(place for place in at if 0 < place < len(data)), len(data)]
    return [data[start:end] for start, end in pairwise(places) if end > start]


@pytest.mark.parametrize("reply", REPLIES)
def test_a_reply_is_no_key(reply: str) -> None:
    data = REPLIES[reply]
    assert keys_of([b"2" + data + b"3"]) == ["2", "3"]
    for at in range(1, len(data)):
        assert keys_of([b"2", data[:at], data[at:], b"3"], 0.05) == ["2", "3"], at
    one_by_one = [data[at : at + 1] for at in range(len(data))]
    assert keys_of([b"2", *one_by_one, b"3"], 0.05) == ["2", "3"]


@pytest.mark.parametrize("reply", ["DA1", "DA2", "XTVERSION", "background"])
def test_the_rest_of_a_reply_that_comes_late_is_dropped(reply: str) -> None:
    data = REPLIES[reply]
    assert keys_of([data[:1], data[1:], b"3"], 0.3) == ["escape", "3"]
    assert keys_of([data[:3], data[3:], b"3"], 0.5) == ["3"]


def test_a_reply_without_an_end_blocks_no_keys() -> None:
    assert keys_of([b"\x1b]11;rgb:0000", b"q", b"q"], 3.0) == ["q", "q"]
    assert keys_of([b"\x1b]11;rgb:00\x1b[A", b"q"]) == ["up", "q"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_dropped(fault: str) -> None:
    assert keys_of([b"2", FAULTS[fault], b"3"]) in (["2", "3"], ["2", "A", "3"])
    assert keys_of([b"2" + FAULTS[fault] + b"\x1b[A"])[-1] == "up"


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_passed_on(key: str) -> None:
    data = key.encode()
    assert keys_of([data]) == KEYS[key]
    assert keys_of([data[at : at + 1] for at in range(len(data))], 0.05) == KEYS[key]


def test_alt_and_a_bracket_are_keys_after_a_moment() -> None:
    assert keys_of([b"\x1b[", b"x"], 0.3) == ["alt+left_square_bracket", "x"]
    assert keys_of([b"\x1b]", b"x"], 0.3) == ["alt+right_square_bracket", "x"]
    assert keys_of([b"\x1b", b"b"], 0.3) == ["escape", "b"]


def test_pasted_text_stays_whole() -> None:
    typed = TerminalInput(ESCAPE_S)
    pasted = typed.feed("\x1b[200~Straße 1\n\x1b[201~".encode(), 0.0)
    assert pasted == "\x1b[200~Straße 1\n\x1b[201~"
    assert typed.feed(b"\x1b[200~Stra\xdfe\x1b[201~", 0.0) == "\x1b[200~Strae\x1b[201~"


@given(
    st.lists(
        st.sampled_from([*REPLIES.values(), *FAULTS.values(), *(key.encode() for key in KEYS)])
        | st.binary(max_size=12),
        max_size=8,
    ),
    st.lists(st.integers(1, 80), max_size=6),
    st.sampled_from([0.0, 0.05, 0.3, 3.0]),
)
def test_nothing_that_arrives_is_an_error(
    sent: list[bytes], places: list[int], pause_s: float
) -> None:
    """Textual reads what is passed on, and a key that follows after a while is read."""
    assert keys_of([*cut(b"".join(sent), places), b"\x07", b"\x1b[201~", b"q"], 3.0)[-1] == "q"
    keys_of(cut(b"".join(sent), places), pause_s)


@given(st.text(max_size=20).filter(lambda text: "\x1b" not in text), st.lists(st.integers(1, 60)))
def test_text_is_the_same_in_pieces(text: str, places: list[int]) -> None:
    typed, data = TerminalInput(ESCAPE_S), text.encode("utf-8", "ignore")
    assert "".join(typed.feed(part, 0.0) for part in cut(data, places)) == data.decode()
