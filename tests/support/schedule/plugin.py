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

from tests.support.schedule.durations import (
    function_of,
    group_durations,
    group_of,
    known_durations,
    longer_functions,
    longest_first,
)
from tests.support.schedule.long import LONG, is_long
from tests.support.schedule.outcomes import note_not_reached, note_other_part
from tests.support.schedule.parts import Part, is_dealt, needs_brokers
from tests.support.schedule.rotation import (
    ALL,
    Rotation,
    parametrize_rotating,
    parse_rotation,
    settle,
)

# Of the fast suite: one process with the clusters, two for the rest.
_WORKERS = 3
_CLUSTERS = frozenset({"clusters", "secure"})
# Tests of these directories, which a contributor runs in a minute, share no brokers.
_WITHOUT_BROKERS = ("tests/unit/", "tests/console/")
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


def pytest_configure(config: pytest.Config) -> None:
    settle(config)


def pytest_report_header(config: pytest.Config) -> str:
    """Print which values this run takes."""
    number = config.getoption("rotation")
    if number == ALL:
        return "rotation: all seeds, pairs of versions and other values that take turns"
    return (
        f"rotation: {number} (--rotation {number} takes the same values, --rotation all takes all)"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_rotating(metafunc)


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
    if needs_brokers(item) and item.nodeid.startswith(_WITHOUT_BROKERS):
        raise pytest.UsageError(f"{item.nodeid} needs a broker: it belongs to tests/brokers")
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
        help="skip tests that would not end until this time (seconds since 1970) as not reached",
    )
    parser.addoption(
        "--part",
        type=Part.parse,
        metavar="K/N",
        help="of the long tests run those of every gate, and part K of N of the others; of the "
        "fast ones on brokers that plain pytest runs, part K of N",
    )
    parser.addoption(
        "--rotation",
        type=parse_rotation,
        metavar="NUMBER|all",
        help="of seeds and other values that take turns, take those of this number of commits "
        "(default: that of the checkout), or all",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose a part of the long tests, and run first what must not be missing in a gate.

    What takes longest begins first where there are several processes: a long test that begins last
    would run alone.
    """
    part = config.getoption("part")
    if part is not None:
        chosen = part.choose(items)
        others = [item for item in items if item not in chosen]
        note_other_part(others)
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item in chosen]
    order = {name: number for number, name in enumerate(reversed(LONG))}

    limited = config.getoption("until") is not None
    rotation = Rotation.of(config)

    def rank(item: pytest.Item) -> tuple[bool, bool, int, bool, bool]:
        numbers = (order[mark.name] for mark in item.iter_markers() if mark.name in order)
        number = min(numbers, default=-1)
        # Of the fast tests, those without a broker come first: they are done in a minute. Where
        # the time may not suffice for all, it goes to those that the README's command leaves out.
        has_run = limited and item.get_closest_marker("longer") is None
        dealt = number >= 0 and is_dealt(item)
        return (
            dealt,
            dealt and limited and rotation.puts_last(group_of(item)),
            number,
            number < 0 and has_run,
            number < 0 and needs_brokers(item),
        )

    if "PYTEST_XDIST_WORKER" in os.environ:
        durations = group_durations(filter(is_long, items))
        items.sort(key=lambda item: longest_first(item, durations))
    items.sort(key=rank)


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    """Name the part, and say how much it is."""
    part = config.getoption("part")
    if part is None:
        return None
    minutes = sum(group_durations(filter(is_long, items)).values()) / 60
    return f"part {part.number} of {part.count}: {minutes:.0f} minutes of long tests, all processes"


# What a test may take longer than its mean.
_MARGIN = 1.5


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what would end too late, before its fixtures are set up; no gate does without some."""
    until = item.config.getoption("until")
    if until is None:
        return
    if is_long(item) and not is_dealt(item):
        if time.time() > until:
            pytest.fail("part of every gate, and not reached in the time that --until leaves")
        return
    if time.time() + _MARGIN * known_durations().get(function_of(item.nodeid), 0) > until:
        note_not_reached(item)
        pytest.skip("not reached in the time that --until leaves")
