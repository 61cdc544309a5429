"""``python -m bench``: run the benchmark, or a part of it."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from bench.clusters import make_class_archives, running
from bench.copying import Patience
from bench.machine import commit
from bench.model import Results, recall
from bench.peer import MirrorMaker
from bench.plan import QUICK, Scope, tasks
from bench.run import Bench, Limits, done, keep, say
from bench.tuning import candidates

_HERE = Path(__file__).parent


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0, also when targets are missed; 1 when a run failed."""
    options = _parser().parse_args(arguments)
    scope = _scope(options)
    wanted = tasks(scope, options.only)
    if options.list:
        print("\n".join(dict.fromkeys(task.name for task in wanted)))
        return 0
    limits = Limits(options.rows, _until(options.minutes))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what is running ends in order
    out = options.out or (_HERE / "out" if options.quick else _HERE)
    results = recall(out) if options.resume or options.report else Results()
    if options.report:
        keep(results, out)
        return 0
    if not wanted and not options.tune:
        print("--only fits no run; see --list", file=sys.stderr)
        return 2
    if not options.tune and all(done(results, task, commit()) for task in wanted):
        keep(results, out)
        say("nothing is left to run")
        return 1 if results.failed else 0
    directory = Path(tempfile.mkdtemp(prefix="k2ktui-bench-", dir=options.data))
    try:
        say("making archives of classes")
        make_class_archives()
        say("starting the clusters")
        with running(directory, scope.heap) as clusters:
            bench = Bench(clusters, scope, directory / "runs", out, results)
            patience = Patience(run=options.run_timeout)
            if options.tune:
                bench.tune([one for one in candidates() if _fits(one, options.only)], patience)
                return 0
            bench.run(wanted, patience, limits)
    finally:
        if options.keep:
            say(f"kept {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    say(f"written: {out / 'RESULTS.md'}")
    return 1 if results.failed else 0


def _fits(candidate: MirrorMaker, patterns: list[str]) -> bool:
    return not patterns or any(fnmatchcase(candidate.key, pattern) for pattern in patterns)


def _until(minutes: float | None) -> float:
    return time.monotonic() + 60 * minutes if minutes else float("inf")


def _scope(options: argparse.Namespace) -> Scope:
    scope = QUICK if options.quick else Scope()
    scope = scope.at_most(options.records) if options.records else scope
    return replace(scope, repeat=options.repeat, heap=options.heap)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="a small matrix with little data, into bench/out")
    add(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="runs whose name (see --list) fits, or has this part; can be repeated",
    )
    add("--list", action="store_true", help="print the names of the runs and end")
    add("--records", type=int, metavar="N", help="at most so many records in each data set")
    add("--repeat", type=int, default=1, help="copy runs of each; the median counts")
    add("--resume", action="store_true", help="skip what results.json has of this commit already")
    add(
        "--tune",
        action="store_true",
        help="try candidates for the peer's tuned configuration instead, and write TUNING.md",
    )
    add("--report", action="store_true", help="only rewrite the tables from results.json")
    add("--out", type=Path, help="directory of RESULTS.md and results.json")
    add("--data", type=Path, help="directory for the clusters' data; removed at the end")
    add("--keep", action="store_true", help="leave the clusters' data and all logs")
    add("--heap", default="1g", help="Java heap of each broker")
    add("--rows", type=int, metavar="N", help="end after so many runs; --resume does the others")
    add("--minutes", type=float, metavar="N", help="begin no run after so many minutes")
    add("--run-timeout", type=float, default=900.0, help="seconds for one run")
    return parser


if __name__ == "__main__":
    sys.exit(main())
