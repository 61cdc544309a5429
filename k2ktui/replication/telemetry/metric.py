"""What a metric of a catalog is: its name, its unit, and how its points are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from k2ktui.config.model import MetricPrefixes

Labels = Mapping[str, str | int]
Points = list[tuple[float, Labels]]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of the catalog.

    Attributes:
        prefix: field of ``MetricPrefixes`` whose text precedes the name.
        name: the name after the prefix; unique, so equal prefixes cannot collide.
        unit: a UCUM code, with the counted things in braces.
        text: one-line description for exporters that support it.
        read: returns the current points of what the catalog reads.
        counter: whether the value only grows while the process runs.
        labels: labels of its points beside ``pipeline``, which all have.
    """

    prefix: str
    name: str
    unit: str
    text: str
    read: Callable[[Any], Points]
    counter: bool = False
    labels: tuple[str, ...] = ()


def full_name(prefixes: MetricPrefixes, prefix: str, name: str) -> str:
    """Return a metric's full name: the configured prefix followed by the catalog name."""
    return f"{getattr(prefixes, prefix)}{name}"
