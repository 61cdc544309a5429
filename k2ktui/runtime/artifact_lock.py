"""Resolved Maven artifacts with their SHA-256, shipped with the package.

With the lock, a first start downloads jars immediately and in parallel instead of reading about
eighty POM files one by one, and runs exactly the files that were tested. After changing a version,
run ``python -m k2ktui.runtime.artifact_lock``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

_FILE = Path(__file__).with_name("artifacts.lock.json")


def read(coordinates: Sequence[str]) -> dict[str, str]:
    """Return ``group:artifact:version`` → SHA-256 of every jar that ``coordinates`` need.

    Empty if exactly this list of coordinates is not locked.
    """
    locks: dict[str, dict[str, str]] = json.loads(_FILE.read_bytes()) if _FILE.exists() else {}
    return locks.get(" ".join(coordinates), {})


def key(jar: Path) -> str:
    """Return ``group:artifact:version`` of a jar in a repository directory."""
    *group, artifact, version = jar.parts[jar.parts.index("repository") + 1 : -1]
    return f"{'.'.join(group)}:{artifact}:{version}"


def main() -> None:
    """Resolve the demo's artifacts again and write the lock file."""
    from k2ktui.runtime import artifacts

    wanted = (artifacts.SERVER, artifacts.LOGGING)
    _FILE.unlink(missing_ok=True)
    jars = artifacts.classpath(*wanted, fresh=True).jars
    sums = {key(jar): hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars}
    _FILE.write_text(json.dumps({" ".join(wanted): sums}, indent=1) + "\n")


if __name__ == "__main__":
    main()
