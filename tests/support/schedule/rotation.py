"""Values that take turns: each run tries one of a list, and the next commit's run the next one.

A test that differs only by its seed, or by the versions of its brokers, need not run with all of
them in each gate. ``@pytest.mark.rotate("codec", ["lz4", "zstd"])`` is ``parametrize``, but a run
takes one of the values; ``@pytest.mark.seeds(4)`` is the same for ``seed``, from 0 to 3. The number
of commits says which one; pytest prints it, and the ids of tests have the values.

``--rotation 1234`` runs with the values of another number, ``--rotation all`` with all of them,
and so does a run that names a test with its value (``FILE::TEST[VALUE]``).
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import pytest

ALL = "all"
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Rotation:
    """Which value a run takes out of each list; without a number all values."""

    number: int | None

    @classmethod
    def of(cls, config: pytest.Config) -> Rotation:
        """Return that of a run, whose option ``settle`` has settled."""
        chosen = str(config.getoption("rotation"))
        return cls(None if chosen == ALL else int(chosen))

    def take(self, values: Sequence[_Value]) -> Sequence[_Value]:
        """Return the value of this run, or all values."""
        if self.number is None or not values:
            return values
        return [values[self.number % len(values)]]

    def puts_last(self, name: str) -> bool:
        """Whether what has this name is among the quarter that runs last, another one each time.

        Where the time does not suffice for all, it is not always the same that is left out.
        """
        return self.number is not None and crc32(name.encode()) % 4 == self.number % 4

    def after(self, count: int) -> Rotation:
        """Return how a second list rotates beside one of ``count``: all combinations come round."""
        return self if self.number is None else Rotation(self.number // max(count, 1))


def parse_rotation(text: str) -> str:
    """Read the option ``--rotation``.

    Raises:
        ValueError: it is neither a number of commits nor ``all``.
    """
    return text if text == ALL else str(abs(int(text)))


def settle(config: pytest.Config) -> None:
    """Decide the rotation once, where the command line does not; xdist hands it to its workers."""
    if config.option.rotation is None:
        names_a_value = any("[" in argument for argument in config.args)
        config.option.rotation = ALL if names_a_value else str(count_commits(config.rootpath))


def count_commits(root: Path) -> int:
    """Return the number of commits of a checkout, 0 where git does not tell."""
    command = ["git", "-C", str(root), "rev-list", "--count", "HEAD"]
    try:
        counted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return 0
    return int(counted.stdout) if counted.returncode == 0 else 0


def parametrize_rotating(metafunc: pytest.Metafunc) -> None:
    """Give a test its values of this run, for each of its marks ``rotate`` and ``seeds``."""
    rotation = Rotation.of(metafunc.config)
    for mark in metafunc.definition.iter_markers("rotate"):
        names, values, *_ = mark.args
        metafunc.parametrize(names, rotation.take(list(values)), **mark.kwargs)
        rotation = rotation.after(len(values))
    seeds = metafunc.definition.get_closest_marker("seeds")
    if seeds is not None:
        times = metafunc.config.getoption("seeds")
        values = range(seeds.args[0] * (times or 1))
        metafunc.parametrize("seed", values if times else rotation.take(values))
