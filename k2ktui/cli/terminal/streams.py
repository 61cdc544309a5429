"""Standard input, output and error as the caller left them: closed, or with a reader that ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from k2ktui.cli.terminal.output import find_output_failure

_NAMES = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class ReaderGone(Exception):
    """The program that read the output, such as ``head``, has ended."""


def open_streams() -> None:
    """Open standard streams that the caller has closed (``>&-``) on /dev/null.

    Otherwise the next file or connection would get descriptor 1 or 2, and receive whatever a
    library prints.
    """
    for number, (name, mode) in enumerate(_NAMES):
        opened = -1
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
        if getattr(sys, name) is None:
            null = number if opened == number else os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(null, mode, closefd=False))  # noqa: SIM115 - for the process


@contextmanager
def reader_is_there() -> Iterator[None]:
    """Raise ReaderGone if the process that reads the output has ended."""
    try:
        yield
    except BrokenPipeError as error:
        if find_output_failure(error):
            raise ReaderGone from error
        # The error is a connection's. Click would treat any BrokenPipeError as one of the output.
        raise RuntimeError(str(error)) from error
