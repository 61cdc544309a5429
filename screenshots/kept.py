"""What is kept of one session with the real demo, so that its moments can be shown again.

``demo.k2k`` has the views, ``drills.jsonl`` the drills as they were read, and ``moments.json`` what
came of the changes: clusters answered that, which no longer exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from k2ktui.engine.drill.model import Drill
from k2ktui.engine.moves.journal import DrillKey
from k2ktui.engine.moves.journal_format import read_state_value, state_value
from k2ktui.engine.moves.plan import Plan, dump_plan, load_plan
from k2ktui.jobs.job_directory import JobRecord
from k2ktui.jobs.usage import Usage
from k2ktui.sync import operations
from k2ktui.sync.moves.apply import Applied
from k2ktui.sync.verify.verification import Verification
from k2ktui.watch.model import View
from k2ktui.watch.recording import Recorder, Recording

HERE = Path(__file__).parent
DEMO, MIRRORMAKER = HERE / "demo.k2k", HERE / "mirrormaker.k2k"
USER, HOST = "ops", "bastion1"
SOMEBODY = f"{USER}@{HOST}"
# A group that is in the plan of all groups only.
OTHER_GROUP = "archive"
_MOMENTS, _DRILLS = HERE / "moments.json", HERE / "drills.jsonl"
_PLANS = {True: HERE / "plan.json", False: HERE / "plan-one.json"}
# Directories, in JSON and in JSON within JSON.
_DIRECTORY = re.compile(r'/[\w./-]+/(?=[\w.-]+\.(?:yaml|jsonl?)\b)|(?<=\\"cwd\\": \\")[^"\\]*')


@dataclass(frozen=True, slots=True)
class Moments:
    """What was done, and what came of it.

    Attributes:
        applied: what applying the plan of one group did.
        verified: the comparison after it.
        entry: its journal entry.
        job: the record of the job.
        usage: what it used, with the times in epoch seconds.
        log: the end of its log.
        marks: when the views were read that scenes begin with, in epoch seconds.
    """

    applied: Applied
    verified: Verification
    entry: operations.JournalEntry
    job: JobRecord
    usage: tuple[tuple[float, Usage], ...]
    log: tuple[str, ...]
    marks: Mapping[str, float]


def moments() -> Moments:
    """Return what is kept of the changes."""
    return TypeAdapter(Moments).validate_json(_MOMENTS.read_bytes())


def keep_moments(found: Moments, user: str, host: str) -> None:
    """Keep moments, with somebody else's name and no path of this machine in them."""
    job = replace(found.job, files=("pipeline.yaml",), cwd="/", user=USER, host=HOST, birth="0")
    text = TypeAdapter(Moments).dump_json(replace(found, job=job), indent=1).decode()
    _MOMENTS.write_text(_without_machine(text, user, host))


def plan(*, whole: bool) -> Plan:
    """Return the plan of all groups, or that of the one that diverges."""
    return load_plan(_PLANS[whole].read_text(), 0)


def keep_plan(found: Plan, *, whole: bool) -> None:
    """Keep a plan, with somebody else's name and no path of this machine in it."""
    _PLANS[whole].write_text(dump_plan(replace(found, made_by=SOMEBODY, files=("pipeline.yaml",))))


def drills() -> list[Drill]:
    """Return the drills as they were read, in this order."""
    return [_drill(line) for line in _DRILLS.read_bytes().splitlines()]


def keep_drills(found: Iterable[Drill], user: str, host: str) -> None:
    """Keep drills, one a line: the id, and the record on the target."""
    kept = []
    for drill in found:
        value = f"{drill.id} {state_value(replace(drill, session='')).decode()}"
        kept.append(f"{_without_machine(value, user, host)}\n")
    _DRILLS.write_text("".join(kept))


def _drill(line: bytes) -> Drill:
    drill_id, _, value = line.partition(b" ")
    drill = read_state_value(DrillKey(drill_id.decode()), value)
    assert isinstance(drill, Drill)
    return drill


def keep_views(path: Path, numbers: Sequence[int], kept: Path) -> None:
    """Keep some views of a recording, with somebody else's name in them."""
    recording = Recording(path)
    kept.unlink(missing_ok=True)
    recorder = Recorder(kept)
    for number in numbers:
        recorder.add(_of_somebody(recording.view(number)))
    recorder.close()
    recording.close()
    kept.chmod(0o644)


def keep_last_views(path: Path, count: int, end: int) -> None:
    """Keep the last views before number ``end`` of a recording of a demo with MirrorMaker 2."""
    recording = Recording(path)
    end = min(end, len(recording))
    recording.close()
    keep_views(path, range(max(0, end - count), end), MIRRORMAKER)


def _of_somebody(view: View) -> View:
    runners = tuple(
        replace(
            runner,
            user=USER,
            host=HOST,
            pid_space="",  # of a machine: with another one's, the run is not this host's job
            runner="-".join((HOST, *runner.runner.rsplit("-", 2)[1:])),  # host, pid, random
        )
        for runner in view.runners
    )
    journal = tuple(replace(entry, who=SOMEBODY) for entry in view.journal)
    return replace(view, runners=runners, journal=journal)


def _without_machine(text: str, user: str, host: str) -> str:
    text = _DIRECTORY.sub("", text).replace(f"{user}@{host}", SOMEBODY)
    return re.sub(rf'(?<=["/@: -]){re.escape(host)}(?=["\\/ :-])', HOST, text)
