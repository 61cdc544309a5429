"""The logins and certificates of laps: the newest ones, and none that the driver knows as refused.

Every worker process of every executor would try a refused login. So after a lap has failed for that
reason, the driver connects first, which each login may once in 30 seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

from k2ktui.errors import ConnectionFailed, LoginFailed
from k2ktui.kafka.auth.logins import LOGINS, RENEWAL, Renewal, newest, password_login
from k2ktui.kafka.wire.cluster import WireClient
from k2ktui.replication.copying.slot_task import FaultKind, LapOutcome, SlotResult

log = logging.getLogger(__name__)

_OPEN_S = 10.0

Options = Mapping[str, Any]


class LapLogins:
    """The connection options of the laps of one run; thread-safe.

    Args:
        source: connection options of the source cluster, as they were at the start.
        target: those of the target cluster.
    """

    def __init__(self, source: Options, target: Options) -> None:
        self._sides = dict(source), dict(target)
        renewals: list[Renewal | None] = [side.get(RENEWAL) for side in self._sides]
        self._generations = [renewal.since if renewal else 0 for renewal in renewals]
        self._options = self._sides
        self._lock = Lock()
        self._is_refused = False

    def options(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the options of source and target, with the newest logins and certificates.

        It is the same object until something was renewed.
        """
        generations = _generations(self._sides)
        if generations != self._generations:
            source, target = self._sides
            self._generations, self._options = generations, (newest(source), newest(target))
        return self._options

    def note(self, results: Iterable[SlotResult]) -> None:
        """Take note of how a lap has ended."""
        for result in results:
            kinds = {fault.kind for fault in result.faults}
            if result.outcome is LapOutcome.FAILED and kinds == {FaultKind.UNAUTHORIZED}:
                self._is_refused = True

    def refusal(self) -> LoginFailed | None:
        """Return why a lap would not get in; connects only if a login was refused before."""
        with self._lock:
            options = self.options()
            known = any(LOGINS.is_refused(password_login(one)) for one in options)
            if not self._is_refused and not known:
                return None
            for side, one in zip(("source", "target"), options, strict=True):
                try:
                    with WireClient(one, side) as client:
                        client.open(_OPEN_S)
                except LoginFailed as error:
                    return error
                except ConnectionFailed as error:
                    log.info("%s: its login is not known to be accepted: %s", side, error.message)
            self._is_refused = False
            return None


def _generations(sides: tuple[Options, Options]) -> list[int]:
    renewals: list[Renewal | None] = [side.get(RENEWAL) for side in sides]
    return [renewal.generation if renewal else 0 for renewal in renewals]
