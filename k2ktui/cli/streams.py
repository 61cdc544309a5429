"""Standard input, output and error as the caller left them: closed, or with a reader that ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from k2ktui.cli.output import find_output_failure

_NAMES = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class ReaderGone(Exception):
    """The program that read the output, such as ``head``, has ended."""


def open_streams() -> None:
    """Open the streams that the caller has closed (``>&-``): nothing is read, all is dropped.

    Otherwise the next file or connection would get the number of standard output, and what a
    library prints would go there.
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
    """Raise ReaderGone in place of the error of a write to a reader that has ended."""
    try:
        yield
    except BrokenPipeError as error:
        if find_output_failure(error):
            raise ReaderGone from error
        # Of a connection: Click would take it for one of the output, too.
        raise RuntimeError(str(error)) from error
