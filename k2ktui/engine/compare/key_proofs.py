"""Which absent records of a compacted log were compacted: a newer record of their key proves it."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

_MOST_KEYS = 1_000_000
_MOST_PLACES = 20


class KeyProofs:
    """Absent records of one log that wait for a newer record of their key, in bounded memory.

    A tombstone that is gone itself leaves nothing to prove with: such records stay unproven, and
    so do those beyond a million keys at once.

    Attributes:
        proven: absent records with a newer record of their key.
    """

    def __init__(self, most_keys: int = _MOST_KEYS) -> None:
        self.proven = 0
        self._most = most_keys
        # Number of absent records, offset of the newest, and whether it may have been compacted
        # without a newer record that is left.
        self._waiting: dict[bytes, tuple[int, int, bool]] = {}
        self._unproven = 0
        self._others: list[int] = []

    def __bool__(self) -> bool:
        """Whether any absent record waits for a newer one."""
        return bool(self._waiting)

    def wait(self, key: bytes | None, offset: int, *, is_tombstone: bool = False) -> None:
        """Note an absent record with its offset on the source; compaction removes it without a key.

        What is waited for comes in the order of the offsets.
        """
        name = None if key is None else _digest(key)
        if name is None or (name not in self._waiting and len(self._waiting) >= self._most):
            self._unproven += 1
            if len(self._others) < _MOST_PLACES:
                self._others.append(offset)
        else:
            count = self._waiting[name][0] if name in self._waiting else 0
            self._waiting[name] = count + 1, offset, is_tombstone

    def see(self, key: bytes | None) -> None:
        """Note a record that follows all that wait."""
        if key is not None and self._waiting:
            self.proven += self._waiting.pop(_digest(key), (0,))[0]

    def doubt(self, key: bytes | None) -> None:
        """Note a newer record of a key elsewhere: it may have been here, and be compacted itself.

        A tombstone is removed after a while, and with it the proof.
        """
        if key is not None and self._waiting:
            name = _digest(key)
            if name in self._waiting:
                count, offset, _ = self._waiting[name]
                self._waiting[name] = count, offset, True

    def last_of_keys(self) -> Iterator[int]:
        """Yield the offsets of records that are the newest of their key, as far as is known."""
        return (offset for _, offset, is_doubtful in self._waiting.values() if not is_doubtful)

    def places(self) -> list[int]:
        """Return the first offsets without a proof, of each key the newest."""
        newest = sorted(offset for _, offset, _ in self._waiting.values())
        return sorted([*self._others, *newest[:_MOST_PLACES]])[:_MOST_PLACES]

    @property
    def unproven(self) -> int:
        """Absent records without a newer record of their key so far."""
        return self._unproven + sum(count for count, *_ in self._waiting.values())


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=16).digest()
