"""Logins while a process runs: how they are renewed, and that refused ones are tried rarely.

Accounts are locked after some attempts with a wrong password, and every connection of a process
would try its own: a login that was refused is tried again once in 30 seconds. Executors have this
module, and no configuration (``k2ktui.kafka.properties.renewal``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from threading import Lock
from time import monotonic
from typing import Any, Protocol

RETRY_S = 30.0
_MOST = 1000
_SALT = os.urandom(16)
_WIRE = ("sasl_plain_username", "sasl_plain_password")
_LIBRDKAFKA = ("sasl.username", "sasl.password")

Login = bytes | None
"""A login without its password: a digest that only this process can compare; None without one."""


class RefusedLogins:
    """The logins that were refused, and when; thread-safe.

    Args:
        clock: monotonic seconds.

    Attributes:
        refusals: how many there were so far; a client that is made then has tried none of them.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._refused: dict[bytes, _Refusal] = {}
        self.refusals = 0

    def note(self, login: Login, reason: str) -> None:
        """Remember that a login was refused just now, and the server's reason."""
        if login is None:
            return
        with self._lock:
            self._refused.pop(login, None)
            self.refusals += 1
            self._refused[login] = _Refusal(self._clock(), reason, self.refusals)
            if len(self._refused) > _MOST:
                del self._refused[next(iter(self._refused))]

    def accepted(self, login: Login) -> None:
        """Forget a login that was refused and is accepted now."""
        if login is not None and self._refused:
            with self._lock:
                self._refused.pop(login, None)

    def reason(self, login: Login) -> str:
        """Return why a login must not be tried now; "" if it may be.

        The first caller after 30 seconds may; the others wait for what comes of it.
        """
        if login is None or not self._refused:
            return ""
        with self._lock:
            known = self._refused.get(login)
            if known is None:
                return ""
            if self._clock() < known.at + RETRY_S:
                return known.reason
            self._refused[login] = replace(known, at=self._clock())
            return ""

    def is_refused(self, login: Login) -> bool:
        """Return whether the last attempt with a login was refused, as far as it is known."""
        return login is not None and login in self._refused

    def was_refused(self, login: Login, since: int) -> bool:
        """Return whether a login was refused since there were so many refusals."""
        known = None if login is None else self._refused.get(login)
        return known is not None and known.number > since


@dataclass(frozen=True, slots=True)
class _Refusal:
    at: float
    reason: str
    number: int


LOGINS = RefusedLogins()
"""Of this process."""


def login_of(*parts: Hashable) -> bytes:
    """Return what compares logins; the last part is the secret."""
    return blake2b(repr(parts).encode(), key=_SALT).digest()


def password_login(settings: Mapping[str, Any]) -> Login:
    """Return the login of a client with a user and a password, of either library's settings."""
    for (user, password), servers in (
        (_WIRE, "bootstrap_servers"),
        (_LIBRDKAFKA, "bootstrap.servers"),
    ):
        if settings.get(password):
            return login_of(str(settings.get(servers, "")), settings[user], settings[password])
    return None


class Renewable(Protocol):
    """What a :class:`Renewal` needs of the credentials of a cluster, which has the details."""

    @property
    def generation(self) -> int:
        """A number that is larger after each renewal."""

    @property
    def advice(self) -> str:
        """What makes this process use another login or certificate, for errors."""

    def options(self, role: str) -> dict[str, Any]:
        """Return the newest options of login and TLS."""

    def read_again(self) -> None:
        """Read all files again: a login or a certificate was refused."""


RENEWAL = "renewal"
"""The option of wire connections that holds a :class:`Renewal`."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """Gives wire connections the newest login and certificates of a role.

    A copy in a Spark task renews nothing: the driver gives each lap the newest options.

    Attributes:
        credentials: of the cluster; None in a task.
        role: the client's.
        advice: what makes this process use another login or certificate, for errors.
        since: the generation of the options that it is one of.
    """

    credentials: Renewable | None
    role: str
    advice: str = ""
    since: int = 0

    def __reduce__(self) -> tuple[object, ...]:
        return Renewal, (None, self.role, self.advice)

    def __str__(self) -> str:
        return RENEWAL

    @property
    def generation(self) -> int:
        """A number that is larger after each renewal."""
        return self.credentials.generation if self.credentials else 0

    def options(self) -> dict[str, Any]:
        """Return the newest options of login and TLS; none in a task."""
        return self.credentials.options(self.role) if self.credentials else {}

    def refused(self) -> None:
        """Take note that a login or a certificate was refused: all files are read again."""
        if self.credentials:
            self.credentials.read_again()


def newest(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return wire options with the newest login and certificates."""
    renewal: Renewal | None = options.get(RENEWAL)
    return {**options, **(renewal.options() if renewal else {})}
