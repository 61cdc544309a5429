"""Rights as an operator grants them: ``kafka-acls.sh`` lines, applied to a test's cluster."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from tests.support.clusters.secure import SecureNode

_KINDS = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}


@dataclass(frozen=True, slots=True)
class Grant:
    """One operation on one resource."""

    operation: AclOperation
    kind: ResourceType
    name: str
    prefixed: bool = False

    def give(self, secure: SecureNode, user: str) -> None:
        """Grant it to a user."""
        pattern = ResourcePatternType.PREFIXED if self.prefixed else ResourcePatternType.LITERAL
        secure.allow(user, [self.operation], self.name, self.kind, pattern)


def documented(page: Path, mark: str) -> list[Grant]:
    """Return what the commands between two marks of a documentation page grant."""
    text = page.read_text()
    block = text[text.index(f"<!-- {mark} -->") : text.index(f"<!-- /{mark} -->")]
    lines = [line for line in block.splitlines() if line.startswith("kafka-acls.sh")]
    return [grant for line in lines for grant in read_command(line)]


def read_command(line: str) -> Iterator[Grant]:
    """Read a ``kafka-acls.sh`` command."""
    words = shlex.split(line)
    pairs = list(pairwise(words))
    prefixed = ("--resource-pattern-type", "prefixed") in pairs
    for option, name in pairs:
        if option in _KINDS:
            for key, operation in pairs:
                if key == "--operation":
                    yield Grant(_operation(operation), _KINDS[option], name, prefixed)


def renamed(grants: list[Grant], names: Mapping[str, list[str]]) -> list[Grant]:
    """Return the grants for other resources than the page names, one for each new name."""
    return [
        replace(grant, name=name)
        for grant in grants
        for name in names.get(grant.name, [grant.name])
    ]


def _operation(word: str) -> AclOperation:
    named = "".join(f"_{c}" if c.isupper() else c for c in word).strip("_").upper()
    operation: AclOperation = AclOperation[named]
    return operation
