"""Normalizes alternative key spellings from older schemas and documentation errors."""

from __future__ import annotations

from dataclasses import dataclass, replace

from k2ktui.config.problems import Path, Problem, format_path
from k2ktui.config.scalars import Text, java_text
from k2ktui.config.tree import Node, merge

_REGISTRY_URL = "schema.registry.url"
# Levels that hold only a key of an earlier release; an empty one is removed.
_EMPTIED = ("connection", "registry")
# Old path -> path in the model. Order matters: the `kafka` level is removed first.
SPELLINGS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("coordination", "kafka"), ("coordination",)),
    (("coordination", "assignement"), ("coordination", "assignment")),
    # Lenses' concepts page: client properties may be overridden in the coordination section. All
    # control topics are on the target.
    (("coordination", "common"), ("target", "kafka", "common")),
    (("coordination", "admin"), ("target", "kafka", "admin")),
    (("coordination", "consumer"), ("target", "kafka", "consumer")),
    (("coordination", "producer"), ("target", "kafka", "producer")),
    (("features", "applyMappingsGuards"), ("features", "applyMappingsGuard")),
    (("features", "optimizeCommitPartition"), ("features", "optimizeOffsetCommitPartition")),
    # Lenses' Helm chart of the alpha releases.
    (("features", "offsetCommitOptimizePartition"), ("features", "optimizeOffsetCommitPartition")),
    (
        ("coordination", "connection", "servers"),
        ("target", "kafka", "common", "bootstrap.servers"),
    ),
    (("source", "kafka", "registry", "url"), ("source", "registry", "config", _REGISTRY_URL)),
    (("target", "kafka", "registry", "url"), ("target", "registry", "config", _REGISTRY_URL)),
    (("mm2", "evenSo"), ("mm2", "force")),
    (
        ("source", "kafka", "connection", "servers"),
        ("source", "kafka", "common", "bootstrap.servers"),
    ),
    (
        ("target", "kafka", "connection", "servers"),
        ("target", "kafka", "common", "bootstrap.servers"),
    ),
)

# Keys that are accepted and ignored, with the note for the operator.
IGNORED: dict[tuple[str, ...], str] = {
    ("license",): "license is ignored: k2ktui needs none",
    ("coordination", "commit", "charset"): "coordination.commit.charset is ignored: it is UTF-8",
    ("coordination", "charset"): "coordination.charset is ignored: it is UTF-8",
}


@dataclass
class KeyAliases:
    """Converts one file's tree to the model's keys; appends to ``notes`` and ``problems``."""

    notes: list[str]
    problems: list[Problem]

    def spell(self, tree: Node) -> Node:
        """Return ``tree`` with every known alternative key moved to the model's path."""
        for old, new in SPELLINGS:
            moved = tree.at(old)
            if moved is not None and _movable(moved, old, new):
                tree = self._put(_without(tree, old), new, moved)
        for path, note in IGNORED.items():
            if tree.at(path) is not None:
                tree = _without(tree, path)
                self._note(note)
        return self._replication(tree)

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def _put(self, tree: Node, path: Path, moved: Node) -> Node:
        if path[-1:] == ("bootstrap.servers",) and isinstance(moved.value, list):
            moved = replace(moved, value=Text(java_text(moved.plain())))
        present = tree.at(path)
        if present is not None:
            self._report_duplicate(present, moved)
            moved = merge(moved, present, frozenset())
        return _with(tree, path, moved)

    def _report_duplicate(self, present: Node, moved: Node) -> None:
        for key, item in moved.table.items():
            twin = present.table.get(key)
            if twin is not None:
                self._report_duplicate(twin, item)
        if present.table or moved.table or moved.value is None or present.value is None:
            return
        if present.plain() == moved.plain():
            return  # the same value twice, such as an address in every section
        message = f"already given as {present.written} in line {present.mark.line}"
        self.problems.append(Problem(moved.mark, moved.written, message))

    def _replication(self, tree: Node) -> Node:
        """Merge the list of the source, the sink and the entries between into a single table."""
        given = tree.at(("replication",))
        if given is None or not isinstance(given.value, list):
            if given is not None and given.value is not None:
                wanted = "expected a list with one source entry and one sink entry"
                self.problems.append(Problem(given.mark, given.written, wanted))
                return _without(tree, ("replication",))
            return tree
        entries: dict[str, Node] = {}
        for item in given.value:
            if not isinstance(item.value, dict):
                wanted = "expected an entry `source: …` or `sink: …`"
                self.problems.append(Problem(item.mark, item.written, wanted))
            for key, entry in item.table.items():
                if key in entries:
                    message = f"second {key} entry; a pipeline has one of each"
                    self.problems.append(Problem(entry.mark, entry.written, message))
                entries[key] = entry
        return _with(tree, ("replication",), replace(given, value=entries))


def _movable(moved: Node, old: Path, new: Path) -> bool:
    # Only a table (or null) can be merged into its parent; a scalar stays in place as an error.
    return new != old[:-1] or moved.value is None or isinstance(moved.value, dict)


def _without(tree: Node, path: Path) -> Node:
    key, rest = str(path[0]), path[1:]
    entries = dict(tree.table)
    if rest:
        below = _without(entries[key], rest)
        # Remove a level that held only the moved key.
        entries[key] = below
        if not below.table and len(rest) == 1 and key in _EMPTIED:
            del entries[key]
    else:
        del entries[key]
    return replace(tree, value=entries)


def _with(tree: Node, path: Path, node: Node) -> Node:
    if not path:
        return node
    key = str(path[0])
    level = tree.table.get(key)
    if level is None or (level.value is None and len(path) > 1):
        written = format_path(path[:1]) if not tree.written else f"{tree.written}.{key}"
        level = Node({}, node.mark, written)
    return replace(tree, value={**tree.table, key: _with(level, path[1:], node)})
