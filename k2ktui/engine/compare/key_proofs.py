"""Which absent records of a compacted log were compacted: a newer record of their key proves it."""

from __future__ import annotations

from hashlib import blake2b

_MOST_KEYS = 1_000_000


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
        self._waiting: dict[bytes, int] = {}
        self._unproven = 0

    def __bool__(self) -> bool:
        """Whether any absent record waits for a newer one."""
        return bool(self._waiting)

    def wait(self, key: bytes | None) -> None:
        """Note an absent record; compaction never removes a record without a key."""
        name = None if key is None else _digest(key)
        if name is None or (name not in self._waiting and len(self._waiting) >= self._most):
            self._unproven += 1
        else:
            self._waiting[name] = self._waiting.get(name, 0) + 1

    def see(self, key: bytes | None) -> None:
        """Note a record that follows all that wait."""
        if key is not None and self._waiting:
            self.proven += self._waiting.pop(_digest(key), 0)

    @property
    def unproven(self) -> int:
        """Absent records without a newer record of their key so far."""
        return self._unproven + sum(self._waiting.values())


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=16).digest()
