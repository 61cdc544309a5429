"""Make the class archive of Kafka's brokers: run one with an empty directory, and stop it.

``KafkaNode`` starts this module in the background if there is no archive for its class path.
"""

from __future__ import annotations

import sys
from pathlib import Path

from k2ktui.runtime import artifacts
from k2ktui.runtime.class_archive import be_maker
from k2ktui.runtime.java import find_java
from k2ktui.runtime.node import KafkaNode, broker_archive

_SECONDS = 180.0


def main() -> None:
    """Make the archive if it is missing."""
    be_maker(sys.argv)
    jars = artifacts.classpath(artifacts.SERVER, artifacts.LOGGING)
    broker_archive(find_java(), jars).make(_run_broker)


def _run_broker(options: tuple[str, ...], directory: Path) -> None:
    node = KafkaNode("archive", directory / "node", jvm=options)
    try:
        node.start(_SECONDS)
        node.stop(_SECONDS)
    finally:
        node.close()


if __name__ == "__main__":
    main()
