"""Types of fields that pydantic reads from files: exact types and bounded values.

Parse the text with :mod:`k2ktui.engine.strict_json` first: it rejects what pydantic's own parser
accepts, such as a key that appears twice. Executors of a Spark cluster have no pydantic, so the
records that a Spark task writes (``engine/records/state.py``) do without this module.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from k2ktui.engine.strict_json import LARGEST, LARGEST_INT, LARGEST_MS, LONGEST, MalformedRecord

T = TypeVar("T")

Text = Annotated[str, Field(strict=True, max_length=LONGEST)]
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0, le=LARGEST)]
"""A whole number from 0, for example an offset."""
Number = Annotated[int, Field(strict=True, ge=0, le=LARGEST_INT)]
"""A whole number from 0 of 32 bits, for example a partition."""
Millis = Annotated[int, Field(strict=True, ge=0, le=LARGEST_MS)]
"""A time in epoch milliseconds, or a duration."""
Seconds = Annotated[float, Field(strict=True, ge=0, le=LARGEST_MS / 1000)]
"""A time in epoch seconds."""


def read_as(adapter: TypeAdapter[T], value: object) -> T:
    """Return the object that a parsed JSON value describes.

    Raises:
        MalformedRecord: a field is missing, of another type, or out of bounds; the value itself,
            which may have any size, is not in the message.
    """
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise MalformedRecord(f"{place}: {first['msg']}" if place else first["msg"]) from error
