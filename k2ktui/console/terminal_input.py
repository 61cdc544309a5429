"""What a terminal sends, without what Textual's parser would take for keys or fail on.

Textual 8 reads UTF-8 strictly, takes replies of the terminal that it did not ask for (or that come
late, in pieces) for letters, and fails on key reports with sub-parameters. Over ssh all of that
happens: one Latin-1 byte ended the console, and the reply to a question of another program opened
screens and wrote files. This filter passes on whole sequences that Textual knows, and drops the
rest. References: ECMA-48 (control sequences), XTerm Control Sequences, kitty's keyboard protocol.
"""

from __future__ import annotations

import re

_ESC = 0x1B
_BEL = 0x07
# Of one control sequence; a mouse report has 20 characters, a key with text 40.
_LONGEST = 128
# A sequence that has begun is as good as certain: its rest may come late over a slow line.
_SEQUENCE_S = 1.0
# A reply such as a color, after which nothing came: the line was cut in between.
_STRING_S = 2.0
_HIGHEST = 0x10FFFF

_STRINGS = {
    ord("]"): re.compile(rb"[0-9lLI]"),  # OSC: colors, titles, the clipboard
    ord("P"): re.compile(rb"[01>!]"),  # DCS: XTVERSION, XTGETTCAP, DECRQSS
    ord("_"): re.compile(rb"[G>]"),  # APC: kitty's graphics
}
_CONTROL = re.compile(rb"\[([\x30-\x3f]*)([\x20-\x2f]*)([\x40-\x7e])")
_UNFINISHED = re.compile(rb"\[[\x30-\x3f]*[\x20-\x2f]*\Z")
_MOUSE = re.compile(r"<\d{1,6};-?\d{1,6};-?\d{1,6}[mM]")
_MODE = re.compile(r"\?\d{1,6};\d\$y")
_RESIZE = re.compile(r"48(;\d{1,6}(:\d{0,6})*){4}t")
_KEY = re.compile(r"[\d;:]*[u~ABCDEFGHPQRSZIOabcd^@]")
# The rest of a reply whose ESC came alone, and was taken for the Esc key.
_LATE = re.compile(rb"\[[?>=][\d;]*[cu]|\]\d+;[^\x07\x1b]*(\x07|\x1b\\)|P[01>][^\x07\x1b]*\x1b\\")


class TerminalInput:
    """Turns the bytes of a terminal into text for Textual's parser.

    Times are seconds of a monotonic clock.

    Args:
        escape_s: for how long a single ESC may be the beginning of a sequence.
    """

    def __init__(self, escape_s: float) -> None:
        self._escape_s = escape_s
        self._held = b""
        self._since = 0.0
        self._in_string = 0
        self._was_escape = False

    def feed(self, data: bytes, now: float) -> str:
        """Return what can be passed on after these bytes."""
        passed = self.tick(now)
        if self._was_escape and data:
            self._was_escape = False
            if late := _LATE.match(data):
                data = data[late.end() :]
        if data:
            self._since = now
        data, self._held = self._held + data, b""
        return passed + self._read(data)

    def tick(self, now: float) -> str:
        """Return what is passed on because nothing followed it in time; dropped if no key."""
        if self._in_string and now - self._since >= _STRING_S:
            self._in_string, self._held = 0, b""
        held = self._held
        if not held or self._in_string or now - self._since < self._wait_s(held):
            return ""
        self._held = b""
        if held[0] != _ESC:
            return ""  # the beginning of a character
        if len(held) == 1:
            self._was_escape = True
            return "\x1b[27u"  # in kitty's form: after ESC, Textual would wait for what follows
        if len(held) == 2:
            return f"\x1b[{held[1]};3u"  # Alt and a key, in kitty's form: nothing continues it
        # rxvt ends a key with $, which ends no sequence by the standard.
        return held.decode("ascii", "ignore") if held.endswith(b"$") else ""

    def _wait_s(self, held: bytes) -> float:
        return self._escape_s if len(held) <= 2 or held.endswith(b"$") else _SEQUENCE_S

    def _read(self, data: bytes) -> str:
        passed: list[str] = []
        at = 0
        while at < len(data):
            if self._in_string:
                at = self._skip_string(data, at)
            elif data[at] == _ESC:
                at, text = self._read_escape(data, at)
                passed.append(text)
            else:
                end = data.find(b"\x1b", at)
                end = len(data) if end < 0 else end
                passed.append(self._decode(data[at:end], is_last=end == len(data)))
                at = end
        return "".join(passed)

    def _decode(self, data: bytes, *, is_last: bool) -> str:
        """Decode UTF-8, dropping invalid bytes; hold back an incomplete character at the end."""
        if is_last:
            for length in range(1, min(3, len(data)) + 1):
                first = data[-length]
                if first >= 0xC0:
                    if length < (2 if first < 0xE0 else 3 if first < 0xF0 else 4):
                        data, self._held = data[:-length], data[-length:]
                    break
                if first < 0x80:
                    break
        return data.decode("utf-8", "ignore")

    def _skip_string(self, data: bytes, at: int) -> int:
        """Return where the string of a reply ends: after BEL or ST, or before another sequence."""
        for position in range(at, len(data)):
            if data[position] == _BEL and self._in_string == ord("]"):
                self._in_string = 0
                return position + 1
            if data[position] == _ESC:
                if position + 1 == len(data):
                    self._held = data[position:]
                    return len(data)
                self._in_string = 0
                return position + (2 if data[position + 1] == ord("\\") else 0)
        return len(data)

    def _read_escape(self, data: bytes, at: int) -> tuple[int, str]:
        """Read an escape sequence; return where it ends, and the text to pass on."""
        if at + 1 == len(data):
            return self._hold(data, at)
        second = data[at + 1]
        if second == ord("["):
            return self._read_control(data, at)
        if second == ord("O"):
            return self._hold(data, at) if at + 2 == len(data) else self._pass(data, at, 3)
        if second in _STRINGS:
            if at + 2 == len(data):
                return self._hold(data, at)
            if _STRINGS[second].match(data, at + 2):
                self._in_string = second
                return at + 2, ""
        if second == _ESC or second >= 0x80:
            return at + 1, "\x1b"
        return self._pass(data, at, 2)  # Alt and a key

    def _read_control(self, data: bytes, at: int) -> tuple[int, str]:
        if data[at + 2 : at + 3] == b"M":
            return self._read_x10(data, at)
        if data[at + 2 : at + 3] == b"[":  # function keys of the Linux console
            return self._hold(data, at) if len(data) < at + 4 else self._pass(data, at, 4)
        whole = _CONTROL.match(data, at + 1)
        if whole is not None:
            return whole.end(), _known(whole[1] + whole[2] + whole[3])
        if len(data) - at < _LONGEST and _UNFINISHED.match(data, at + 1):
            return self._hold(data, at)
        # Something else came in between, or it has no end.
        end = at + 2
        while end < len(data) and 0x20 <= data[end] <= 0x3F:
            end += 1
        return end, ""

    def _read_x10(self, data: bytes, at: int) -> tuple[int, str]:
        """Read a mouse report of three bytes; past column 95 they are no UTF-8."""
        if len(data) < at + 6:
            return self._hold(data, at)
        is_text = all(byte < 0x80 for byte in data[at + 3 : at + 6])
        return self._pass(data, at, 6) if is_text else (at + 6, "")

    def _hold(self, data: bytes, at: int) -> tuple[int, str]:
        self._held = data[at:]
        return len(data), ""

    def _pass(self, data: bytes, at: int, length: int) -> tuple[int, str]:
        return at + length, data[at : at + length].decode("ascii", "ignore")


def _known(body: bytes) -> str:
    """Return a control sequence as Textual knows it; nothing if it is a reply, or no key."""
    text = body.decode("ascii")
    if _MOUSE.fullmatch(text) or _MODE.fullmatch(text) or _RESIZE.fullmatch(text):
        return "\x1b[" + text
    if not _KEY.fullmatch(text):
        return ""
    key = _plain_key(text[:-1].split(";"))
    return "" if key is None else f"\x1b[{key}{text[-1]}"


def _plain_key(parameters: list[str]) -> str | None:
    """Return the parameters of a key without sub-parameters; None if it is released, or no key.

    The first is ``code:shifted:base``, the second ``modifiers:event``, the third the text, of
    characters separated by colons. Without a text, Textual takes a shifted key for the plain one.
    """
    if len(parameters) > 3:
        return None
    plain = [part.partition(":")[0] for part in parameters[:2]]
    if len(parameters) > 1 and parameters[1].partition(":")[2].partition(":")[0] == "3":
        return None
    shifted = parameters[0].split(":")[1:2] if plain[1:] == ["2"] else []
    characters = parameters[2].split(":") if len(parameters) > 2 else shifted
    if any(not _is_character(number) for number in (*plain, *characters) if number):
        return None
    return ";".join((*plain, *([":".join(c for c in characters if c)] if characters else [])))


def _is_character(number: str) -> bool:
    return len(number) <= 7 and int(number) <= _HIGHEST and not 0xD800 <= int(number) <= 0xDFFF
