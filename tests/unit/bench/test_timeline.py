"""The timeline of a start times functions that this version has; those of others it leaves out."""

from __future__ import annotations

import functools
from importlib import import_module

import pytest

from bench.timeline import STEPS


@pytest.mark.parametrize(
    ("module", "function"), [(module, name) for module, names in STEPS.items() for name in names]
)
def test_every_step_is_a_function(module: str, function: str) -> None:
    if module.startswith("pyspark"):
        pytest.importorskip("pyspark")
    assert callable(functools.reduce(getattr, function.split("."), import_module(module)))
