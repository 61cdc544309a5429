"""Any order of tests gives the same result: ``--shuffle SEED`` runs them in another one.

Modules, their classes and their tests are shuffled; those of a module stay together, so that what
it shares is started once. Two tests keep their order when others are left out: a failure that
depends on it can be narrowed down with the same seed.
"""

from __future__ import annotations

from hashlib import blake2b

import pytest

from tests.support.schedule.durations import without_group


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="run tests in another order, the same per seed"
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Print the seed."""
    seed = config.getoption("shuffle")
    return None if seed is None else f"order of tests: --shuffle {seed}"


# Before pytest groups tests by what their fixtures share, and before the longest are put first.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("shuffle")
    if seed is not None:
        items.sort(key=lambda item: order_of(without_group(item.nodeid), seed))


def order_of(nodeid: str, seed: int) -> list[bytes]:
    """Return a key that sorts tests in the order of a seed, modules and classes together."""
    path, *names = nodeid.partition("[")[0].split("::")
    scopes = ["::".join([path, *names[:depth]]) for depth in range(len(names))]
    return [
        blake2b(f"{seed} {text}".encode(), digest_size=8).digest() for text in (*scopes, nodeid)
    ]
