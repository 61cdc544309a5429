"""Six pipelines of a directory in a real terminal of 80 by 24: rehearsed and failed over by keys.

Two files are not valid, and the source of one pipeline does not answer.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import DrillStatus
from k2ktui.engine.drill.site import SiteDrill
from k2ktui.runtime.node import KafkaNode
from k2ktui.site.operations import list_sites
from tests.support.clusters.kafka import eventually
from tests.support.console.tmux import TMUX, Tmux
from tests.support.drill.sites import Site

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TMUX is None, reason="there is no tmux"),
]
PATIENCE = 300.0
GOOD = 3


def make_directory(place: Path, source: KafkaNode, target: KafkaNode) -> Site:
    """Return six pipelines of one source, of which three can be moved."""
    site = Site(place)
    for _ in range(GOOD):
        site.add(source, target)
    text = site.pairs[0].file.read_text().replace(source.bootstrap, "127.0.0.1:1")
    lost = text.replace(f"name: {site.pairs[0].copied.name}", "name: lost")
    (place / "lost.yaml").write_text(lost)
    for name in ("typo", "slip"):
        (place / f"{name}.yaml").write_text(f"name: {name}\nsorce: {{}}\n")
    return site


def confirm(tmux: Tmux, verb: str) -> None:
    """Type what a confirmation asks for, and press its button."""
    asked = re.compile(rf"type (\S+) to {verb}")
    found = eventually(lambda: asked.search(tmux.screen), f"asked to {verb}", PATIENCE)
    tmux.agree(found[1])
    eventually(lambda: not asked.search(tmux.screen), "the dialog is closed", PATIENCE)


def begin(tmux: Tmux, *keys: str) -> None:
    """Start a site drill without the files whose source is not known; first, a rehearsal."""
    tmux.press("N")
    tmux.sees("New site drill", timeout=PATIENCE)
    tmux.press(*keys, "Enter")
    if not keys:
        tmux.sees("Start a ", f"{GOOD} pipelines leave", timeout=PATIENCE)
        tmux.agree()
        return
    tmux.sees("Leave out 3 files", "lost.yaml", timeout=PATIENCE)
    confirm(tmux, "leave out")
    tmux.sees("Start a ", f"{GOOD} pipelines leave", timeout=PATIENCE)
    confirm(tmux, "start")


def newest(site: Site) -> SiteDrill:
    return list_sites(site.files)[0][0]


def test_a_site_is_watched_rehearsed_and_failed_over_by_keyboard(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    site = make_directory(tmp_path / "pipelines", source, target)
    place = str(tmp_path)
    env = {"XDG_CONFIG_HOME": place, "XDG_STATE_HOME": place, "LANG": "C.UTF-8", "TMPDIR": place}
    program = ["env", "-u", "COLORTERM", "TERM=screen-256color", sys.executable, "-m", "k2ktui"]
    with Tmux([*program, "-d", str(site.directory)], env, (80, 24)) as tmux:
        tmux.sees("0 Fleet", f"{GOOD + 3} pipelines: 3 bad, {GOOD} with warnings", timeout=PATIENCE)
        tmux.press("8")
        tmux.sees("No site drill yet. N starts one", timeout=PATIENCE)

        begin(tmux)
        tmux.sees("Result", "▲ done rehearse", "A failover now would not be safe", timeout=PATIENCE)
        # No pipeline runs, which the rehearsal says.
        tmux.press("v")
        tmux.sees("Report of site drill 2", timeout=PATIENCE)
        tmux.press("Escape")
        eventually(lambda: "Report of site drill" not in tmux.screen, "the report is closed")
        tmux.press("q")
        tmux.sees("last rehearsed", timeout=PATIENCE)

        begin(tmux, "Down")
        # No pipeline runs: the checks say so, and a person accepts that.
        tmux.sees(f"{GOOD} held", "No operator acts on it", timeout=PATIENCE)
        tmux.press("Enter")
        tmux.sees("1 preflight", "failed", "D07", timeout=PATIENCE)
        tmux.press("q")
        tmux.sees(f"{GOOD} held", timeout=PATIENCE)
        tmux.press("A")
        confirm(tmux, "accept")
        for number, phase in ((6, "apply"), (8, "fence-replicator"), (9, "open-target")):
            tmux.sees(f"{number} {phase}, of {GOOD} pipelines", timeout=PATIENCE)
            confirm(tmux, "confirm")
        tmux.sees("You cannot go back", f"{GOOD} opened", timeout=PATIENCE)
        tmux.press("H")
        tmux.sees("No operator acts on it", timeout=PATIENCE)
        tmux.press("q", "0")
        tmux.sees(f"{GOOD + 3} pipelines", "fenced", timeout=PATIENCE)
        tmux.press("q")
        tmux.sees("ENDED 0", timeout=PATIENCE)
    drill = newest(site)
    assert (drill.kind, drill.status) == (DrillKind.PLANNED, DrillStatus.OPEN)
    assert len(drill.members) == GOOD and len(drill.mark.ignored) == 3
    assert all(own.figures.opened_ms is not None for own in drill.drills)
    for pair in site.pairs:
        for number, group in enumerate(pair.groups):
            assert pair.target_offsets(group) == pair.expected_offsets(number)
