"""How many examples the property tests try.

Each test tries a quarter of them by default, so that the fast suite stays fast. With
``K2KTUI_THOROUGH=1`` all tests try all of them; with ``K2KTUI_THOROUGH=2/4``, as in a gate, those
of the second of four parts of the modules do. More examples are more luck, like seeds: they take
turns.
"""

from __future__ import annotations

import inspect
import os

from tests.support.schedule.parts import Part

VARIABLE = "K2KTUI_THOROUGH"


def examples(count: int) -> int:
    """Return the number of examples for a property test that deserves ``count`` of them."""
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    module = caller.f_globals["__name__"] if caller is not None else ""
    return examples_of(module, count, os.environ.get(VARIABLE, ""))


def examples_of(module: str, count: int, thorough: str) -> int:
    """Return the same for a module, and a value of the variable.

    Raises:
        ValueError: the value is neither 1 nor a part.
    """
    if thorough:
        part = Part.parse("1/1" if thorough == "1" else thorough)
        if part.has(module):
            return count
    return max(10, count // 4)
