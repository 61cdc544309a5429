"""How tests are spread over processes (pytest-xdist), without anything to type.

The whole suite runs in a few processes side by side: most of it waits for brokers and screens. Who
names a file or a test, selects with ``-k`` or debugs gets one process, at once. ``-n`` overrides
both.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import time
from collections.abc import Iterator

import pytest

from tests.support.durations import (
    function_of,
    group_durations,
    group_of,
    longer_functions,
    longest_first,
)
from tests.support.long import LONG, is_long
from tests.support.parts import EVERY_TIME, Part

# Of the fast suite: one process with the clusters, two for the rest.
_WORKERS = 3
_CLUSTERS = frozenset({"clusters", "secure"})
# How the default of ``-m`` begins, in pyproject.toml.
_NOT_LONGER = "not longer and "


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Choose the number of processes, and of tests, where the command line does not."""
    # This runs in xdist's own workers too, and a worker that starts workers would never end.
    if "PYTEST_XDIST_WORKER" in os.environ or not config.pluginmanager.hasplugin("xdist"):
        return
    whole = _is_whole_suite(config)
    if not whole:
        # Who names a file or a test wants to see its longer tests, too.
        config.option.markexpr = config.option.markexpr.removeprefix(_NOT_LONGER)
    if config.option.numprocesses is not None:
        return
    if whole and (os.cpu_count() or 1) > 1:
        config.option.numprocesses = _WORKERS
        config.option.dist = "loadgroup"


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """In a fresh clone, let each process compile its share of the tests, then collect all."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker:
        root, number = session.config.rootpath, int(worker.removeprefix("gw"))
        files = sorted((root / "tests").rglob("test_*.py"))
        for file in files[number :: int(os.environ["PYTEST_XDIST_WORKER_COUNT"])]:
            name = ".".join(file.relative_to(root).with_suffix("").parts)
            # What cannot be imported is reported by the collection.
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(name)
    return (yield)


def _runs_a_part(option: argparse.Namespace) -> bool:
    """Whether pytest's cache chooses the tests; without its plugin these options are not there."""
    return any(getattr(option, name, False) for name in ("lf", "stepwise"))


def _is_whole_suite(config: pytest.Config) -> bool:
    option = config.option
    if option.keyword or option.usepdb or option.collectonly or _runs_a_part(option):
        return False
    root = config.rootpath
    return all((root / argument).resolve() in (root, root / "tests") for argument in config.args)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark fast tests that take longer, and keep together what shares what is dear to start.

    Tests of a module that share a fixture stay in one process. So do all that need schema
    registries, all that need brokers of other versions, unless they name a group, and all fast
    tests that need clusters; slow tests and proofs are too long for one, each of their processes
    has clusters.
    """
    if function_of(item.nodeid) in longer_functions() and not is_long(item):
        item.add_marker("longer")
    if item.get_closest_marker("xdist_group") is not None:
        return
    needs = set(getattr(item, "fixturenames", ()))
    if "running_registries" in needs:
        item.add_marker(pytest.mark.xdist_group("registries"))
        return
    if "brokers" in needs:
        item.add_marker(pytest.mark.xdist_group("brokers"))
        return
    assert isinstance(item, pytest.Function)
    # pytest shows a test's fixtures in public, but not their scopes.
    fixtures = item._fixtureinfo.name2fixturedefs  # noqa: SLF001
    scopes = {definitions[-1].scope for definitions in fixtures.values()}
    if scopes & {"module", "class", "package"}:
        item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    elif needs & _CLUSTERS and not is_long(item):
        item.add_marker(pytest.mark.xdist_group("clusters"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--until",
        type=float,
        metavar="TIME",
        help="skip tests that would begin after this time (seconds since 1970) as not reached",
    )
    parser.addoption(
        "--part",
        type=Part.parse,
        metavar="K/N",
        help="run those long tests first that every gate runs, then part K of N of the others, "
        "then the parts after it",
    )


def _turns(part: Part | None, items: list[pytest.Item]) -> dict[str, int]:
    """Return how many parts run before the one of each group of long tests."""
    if part is None:
        return {}
    every_time = {group_of(item) for item in items if item.nodeid.startswith(EVERY_TIME)}
    dealt = [item for item in items if is_long(item) and group_of(item) not in every_time]
    return part.turns(group_durations(dealt))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run first what must not be missing where time is limited.

    That is what every gate runs, then one part after the other; of each the matrix, then the other
    proofs.

    Among these, and among the slow tests, what takes longest begins first where there are several
    processes: a long test that begins last would run alone.
    """
    turns = _turns(config.getoption("part"), items)
    order = {name: number for number, name in enumerate(reversed(LONG))}

    def rank(item: pytest.Item) -> tuple[bool, int, int]:
        found = (order[mark.name] for mark in item.iter_markers() if mark.name in order)
        number = min(found, default=-1)
        is_other = number >= 0 and not item.nodeid.startswith(EVERY_TIME)
        return is_other, turns.get(group_of(item), 0), number

    if "PYTEST_XDIST_WORKER" in os.environ:
        durations = group_durations(filter(is_long, items))
        items.sort(key=lambda item: longest_first(item, durations))
    items.sort(key=rank)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what would begin too late, before its fixtures are set up; no gate does without some."""
    until = item.config.getoption("until")
    if until is None or time.time() <= until:
        return
    if item.nodeid.startswith(EVERY_TIME) and not item.get_closest_marker("slow"):
        pytest.fail("part of every gate, and not reached in the time that --until leaves")
    pytest.skip("not reached in the time that --until leaves")
