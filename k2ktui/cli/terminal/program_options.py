"""Options that Lenses' programs have, too: ``start`` and ``sync`` run with their command lines.

Kubernetes shows the termination log as the reason why a container ended.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k2ktui.errors import K2kError
from k2ktui.faults import fault
from k2ktui.text import safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.runtime.http_server import Address

F = TypeVar("F", bound=Callable[..., Any])

# Kubernetes mounts a file there, and reads at most so much of it.
_DEFAULT = "/dev/termination-log"
_LONGEST_BYTES = 4096
_LOOPBACK, _LARGEST_PORT = "127.0.0.1", 65_535
_SWITCH = click.Choice(["enabled", "disabled"])


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """Options of a program that runs until it is stopped.

    Attributes:
        templates: whether ``${…}`` in the files is filled in.
        termination_log: the file for the fatal error; empty for none.
        creates_log: whether that file is created if it does not exist.
        http: where to serve probes and metrics; None for nowhere.
    """

    templates: bool
    termination_log: str
    creates_log: bool
    http: Address | None = None

    @contextlib.contextmanager
    def report_death(self) -> Iterator[None]:
        """Write an error that ends the program to the termination log, and pass it on."""
        try:
            yield
        except K2kError as error:
            self._write(error)
            raise
        except Exception as error:
            self._write(fault(error))
            raise

    def _write(self, error: K2kError) -> None:
        if not self.termination_log:
            return
        text = " ".join(safe_message(part) for part in str(error).splitlines())
        flags = os.O_WRONLY | os.O_TRUNC | os.O_NOCTTY | (os.O_CREAT if self.creates_log else 0)
        # The error itself is on stderr: a file that cannot be written must not hide it.
        with contextlib.suppress(OSError):
            handle = os.open(self.termination_log, flags, 0o600)
            with open(handle, "wb") as file:
                file.write(text.encode(errors="backslashreplace")[:_LONGEST_BYTES])


def _address(_: click.Context, __: click.Parameter, text: str | None) -> Address | None:
    if text is None:
        return None
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else _LOOPBACK
    if host and port.isascii() and port.isdigit() and int(port) <= _LARGEST_PORT:
        return host, int(port)
    raise click.BadParameter(
        f"{safe_text(text)} is no address; give a port, or a host and a port: 0.0.0.0:8080"
    )


def program_options(function: F) -> F:
    """Add ``-g``, ``-l``, ``-w`` and ``--http``; the command gets them as ``options``."""

    def command(
        *given: Any,
        template_engine: str,
        termination_log: str | None,
        termination_log_enabled: str,
        http: Address | None = None,
        **rest: Any,
    ) -> Any:
        path = (termination_log or _DEFAULT) if termination_log_enabled == "enabled" else ""
        options = ProgramOptions(
            template_engine == "enabled", path, termination_log is not None, http
        )
        with options.report_death():
            return function(*given, options=options, **rest)

    for option in reversed(
        (
            click.option(
                "-g",
                "--template-engine",
                type=_SWITCH,
                default="enabled",
                show_default=True,
                help="Whether ${…} in the files is filled in.",
            ),
            click.option(
                "-l",
                "--termination-log",
                metavar="PATH",
                help="Write the error that ends the program to this file.  [default: "
                f"{_DEFAULT}, if it exists]",
            ),
            click.option(
                "-w",
                "--termination-log-enabled",
                type=_SWITCH,
                default="enabled",
                show_default=True,
                help="Whether that file is written.",
            ),
            click.option(
                "--http",
                metavar="[HOST:]PORT",
                callback=_address,
                help="Serve /livez, /readyz and /metrics over HTTP at this address (default "
                "host: 127.0.0.1).",
            ),
        )
    ):
        command = option(command)
    if hasattr(function, "__click_params__"):
        raise TypeError("program_options goes below the other options")
    return command  # type: ignore[return-value]
