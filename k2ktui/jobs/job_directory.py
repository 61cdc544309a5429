"""The private directory of a job, with its record, its lock and its log."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.bounded import Count, Flag, Seconds, Text, read_as
from k2ktui.engine.moves.journal import RunKind
from k2ktui.engine.strict_json import (
    LARGEST,
    LARGEST_INT,
    MalformedRecord,
    field,
    integer,
    parse_object,
)
from k2ktui.jobs.process import ProcessIdentity
from k2ktui.private_files import private_directory
from k2ktui.runtime.paths import state_path, unwritable_state, write_atomically

log = logging.getLogger(__name__)

_VERSION = 1
_NEW = ("kind", "rewind", "take_over")
_RECORD, _LOCK, LOG = "job.json", "lock", "log.jsonl"
_LONGEST_SLUG = 40
_LARGEST_RECORD = 1 << 20
# Directories of which was logged that their record cannot be read.
_logged: set[Path] = set()


class Phase(StrEnum):
    """The phase that a job last recorded."""

    STARTING = "starting"
    STANDBY = "standby"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The record that a job writes about itself; it contains no secrets.

    Attributes:
        start: unique id of this start.
        pipeline, group: the pipeline's name, and ``coordination.commit.group``.
        files: absolute paths of the pipeline's files.
        cwd: working directory.
        telemetry: whether metrics are exported.
        environment, read_only: the values of these settings in the pipeline's files.
        pid, birth: its process.
        host, user, version: where and as which user it runs, and the version of k2ktui.
        started_at: epoch seconds.
        phase: the phase it has reached.
        term, slots: of its run, 0 until it has begun.
        ended_at, code: end in epoch seconds, and exit code; None if they were not recorded.
        error: why it ended, empty after a requested stop.
        starts: number of starts on this host.
        kind: what it does.
        rewind: ``--rewind`` of ``k2ktui sync``; "" for a job that copies.
        take_over: fence a run that works, although ``coordination.mode`` is not ``exclusive``.
    """

    start: Text
    pipeline: Text
    group: Text
    files: tuple[Text, ...]
    cwd: Text
    telemetry: Flag
    environment: Text
    read_only: Flag
    pid: Count
    birth: Text
    host: Text
    user: Text
    version: Text
    started_at: Seconds
    phase: Phase = Phase.STARTING
    term: Count = 0
    slots: Count = 0
    ended_at: Seconds | None = None
    code: Annotated[int, Field(strict=True, ge=-LARGEST_INT, le=LARGEST)] | None = None
    error: Text = ""
    starts: Count = 1
    kind: RunKind = RunKind.COPY
    rewind: Text = ""
    take_over: Flag = False

    @property
    def identity(self) -> ProcessIdentity:
        """The identity of its process."""
        return ProcessIdentity(self.pid, self.birth)


@dataclass(frozen=True, slots=True)
class JobDirectory:
    """The directory of one job and the files in it."""

    directory: Path

    @property
    def id(self) -> str:
        """The job's id, unique on this host."""
        return self.directory.name

    @property
    def log(self) -> Path:
        """The log (JSON lines); older logs have the suffix ``.1``, ``.2`` …."""
        return self.directory / LOG

    def make(self) -> None:
        """Create the directory, private to the user.

        Raises:
            Refused: it cannot be created or written to.
        """
        try:
            if self.directory.is_relative_to(state_path()):
                private_directory(state_path())
            self.directory.mkdir(parents=True, exist_ok=True)
            for private in (self.directory, self.directory.parent, self.directory.parent.parent):
                private.chmod(0o700)
        except OSError as error:
            raise unwritable_state(self.directory, error) from error

    def read(self) -> JobRecord | None:
        """Return the record; None if there is none or it cannot be read."""
        try:
            with (self.directory / _RECORD).open("rb") as file:
                return _record(
                    parse_object(file.read(_LARGEST_RECORD + 1), largest=_LARGEST_RECORD)
                )
        except FileNotFoundError:
            return None
        except (OSError, MalformedRecord) as error:
            if self.directory not in _logged:  # a console looks every second
                _logged.add(self.directory)
                log.warning("%s: its record cannot be read: %s", self.directory, error)
            return None

    def write(self, record: JobRecord) -> None:
        """Write the record.

        Raises:
            Refused: it cannot be written.
        """
        text = json.dumps({"v": _VERSION, **asdict(record)}, indent=1)
        try:
            write_atomically(self.directory / _RECORD, text.encode(), mode=0o600)
        except OSError as error:
            raise unwritable_state(self.directory, error) from error

    def lock(self) -> int | None:
        """Return a descriptor that holds the lock until its last copy is closed.

        None if another process holds it: the job runs, or is being started.
        """
        handle = os.open(self.directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return None
        return handle

    def open_log(self) -> int:
        """Return a descriptor that appends to the log."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(self.log, flags, 0o600)
        os.fchmod(handle, 0o600)
        return handle


def jobs_home() -> Path:
    """Return the directory of this host's jobs, which may not exist.

    Hosts may share the user's home directory.
    """
    return state_path("jobs", _slug(socket.gethostname()))


def job_directory(config: PipelineConfig, kind: RunKind = RunKind.COPY) -> JobDirectory:
    """Return the directory of a pipeline's job, whether or not it exists.

    Its id depends on the commit group and topic and the target, over which two drivers would
    conflict, and not on the location of the pipeline's file. There may be a job of each kind.
    """
    coordination = config.coordination.commit
    servers = config.target.kafka.common.get("bootstrap.servers", "")
    what = json.dumps([coordination.group, coordination.topic, servers])
    digest = hashlib.sha256(what.encode()).hexdigest()[:10]
    more = "" if kind is RunKind.COPY else f"-{kind}"
    return JobDirectory(jobs_home() / f"{_slug(config.name)}-{digest}{more}")


def list_job_directories() -> Iterator[JobDirectory]:
    """Yield the directories of this host's jobs."""
    with contextlib.suppress(OSError):
        for directory in sorted(jobs_home().iterdir()):
            if (directory / _RECORD).is_file():
                yield JobDirectory(directory)


def _slug(name: str) -> str:
    # Dots are replaced too: "." and ".." are special directory names.
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_SLUG] or "_"


def _record(value: dict[str, Any]) -> JobRecord:
    if integer(field(value, "v")) != _VERSION:
        raise MalformedRecord("of another version")
    # Some fields have defaults, but all are in every record, except in those of earlier releases.
    names = [field.name for field in fields(JobRecord)]
    known = {name: field(value, name) for name in names if name in value or name not in _NEW}
    return read_as(_RECORDS, known)


_RECORDS = TypeAdapter(JobRecord)
