"""The soak: what it takes for growth, and that a short one passes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from bench.soak import main
from bench.soak_faults import EXCLUSIVE_FAULTS, FAULTS, UNPROVEN_FAULTS, draw
from bench.soak_meter import Sample, growth
from bench.soak_writers import STRAYS, Looks
from k2ktui.engine.mapping.strange_records import NOT_MAPPED, OtherWriters
from k2ktui.watch.codec import dumps
from tests.support.clusters.kafka import TIMEOUT
from tests.unit.watch.test_strange import STRANGE, made_with


def samples(*mb: float, threads: int = 5, more_threads: int = 0) -> list[Sample]:
    late = len(mb) * 3 // 4
    return [
        Sample(60.0 * at, size, threads + (more_threads if at >= late else 0), 10)
        for at, size in enumerate(mb)
    ]


def test_what_a_process_needs_to_start_is_no_growth() -> None:
    grown = growth("driver", samples(20, 180, 200, 201, 202, 203, 204, 205))
    assert grown.is_flat
    assert grown.mb == (204.5, 4.0)
    assert grown.minutes == 7


@pytest.mark.parametrize(
    "grown",
    [
        samples(100, 100, 100, 110, 120, 130, 140, 150),
        samples(*[100] * 8, more_threads=6),
    ],
    ids=["memory", "threads"],
)
def test_growth_is_reported(grown: list[Sample]) -> None:
    assert not growth("driver", grown).is_flat


@pytest.mark.parametrize(("threads", "more"), [(5, 5), (250, 20)], ids=["a client", "Java's pools"])
def test_one_client_more_and_larger_pools_are_no_growth(threads: int, more: int) -> None:
    grown = samples(*[100] * 8, threads=threads, more_threads=more)
    assert growth("driver", grown).is_flat


def test_every_fault_is_drawn() -> None:
    dice = random.Random(1)
    assert {draw(dice, list(FAULTS)) for _ in range(1000)} == set(FAULTS)


def test_a_run_joins_only_where_runs_share_a_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    (joins,) = set(FAULTS) - set(EXCLUSIVE_FAULTS)
    with pytest.raises(SystemExit, match="2"):
        main(["--mode", "exclusive", "--fault", joins])
    assert "only with --mode shared" in capsys.readouterr().err


@pytest.mark.parametrize("fault", UNPROVEN_FAULTS)
def test_what_is_copied_again_needs_a_topic_that_is_not_proven(
    fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--fault", fault])
    assert "only with --writers" in capsys.readouterr().err


def test_a_view_with_strange_records_is_an_alarm() -> None:
    looks = Looks()
    assert looks.take(dumps(made_with(OtherWriters()).view())) == ""
    untold = OtherWriters(untold={NOT_MAPPED: 2})
    assert looks.take(dumps(made_with(untold).view())) == ""
    assert "orders-0: 4 records at offsets 120" in looks.take(dumps(made_with(STRANGE).view()))
    assert looks == Looks(3, 2, {NOT_MAPPED: 1}, 1, STRAYS)
    assert json.loads(json.dumps(asdict(looks)))["reasons"] == {NOT_MAPPED: 1}


@pytest.mark.slow
def test_a_short_one_passes(tmp_path: Path) -> None:
    options = ["--minutes=0.5", "--fault-every=12", "--fault=worker killed", "--prove-every=0.5"]
    options += ["--load=2", "--writers", f"--strays-within={TIMEOUT}"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.soak", *options, "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, said
    (load,) = (line for line in said if line["event"] == "load")
    assert load["written_mb_s"] > 0 and load["copied_mb_s"] > 0
    (writers,) = (line for line in said if line["event"] == "writers")
    assert writers["living"]["told"] and not writers["said"]
    assert "strays" in {line["event"] for line in said}
    end = said[-1]
    assert end["event"] == "end" and end["faults"] >= 1 and end["proofs"] == 1 and end["records"]
    assert not list(tmp_path.iterdir())
