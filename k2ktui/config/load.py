"""Load a pipeline from layered YAML files."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from hashlib import sha256
from pathlib import Path as FilePath

from k2ktui.config.clusters import (
    ClientFinding,
    ClusterConfig,
    Origin,
    Reading,
    is_security_value,
)
from k2ktui.config.inputs import noting_sources
from k2ktui.config.key_aliases import KeyAliases
from k2ktui.config.mirror_files import is_mirror_file, is_resource_file
from k2ktui.config.model import PipelineConfig
from k2ktui.config.notes import noted_keys, refused_keys
from k2ktui.config.problems import FilePosition, Path, Problem, refuse
from k2ktui.config.scalars import Text
from k2ktui.config.templates import Templates
from k2ktui.config.transforms import place_schema_files
from k2ktui.config.tree import Node, merge, read_tree
from k2ktui.config.validate import validate, validate_cluster
from k2ktui.errors import ConfigError
from k2ktui.secret_values import remember_secrets, without_userinfo
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

ClientCheck = Callable[[ClusterConfig], Iterable[ClientFinding]]

# How the note on files with several names begins.
SEVERAL_NAMES = "-f gives several names:"

_NOT_OURS = (
    "expected k2ktui for this command: another program copies these topics; groups, plan, apply, "
    "undo, verify, translate, sync, status, watch and the console work with them"
)

# These tables hold mutually exclusive alternatives: merging two layers must not combine them.
_WHOLE: frozenset[Path] = frozenset({("replication", "sink", "topic")})


@dataclass(frozen=True)
class Loaded:
    """A pipeline configuration and the position of each of its keys.

    ``provenance`` maps the paths of values to ``file:line``; every other value is a default.
    ``secret_paths`` lists the paths of values that came from the environment or a file.
    ``notes`` are messages to show to the operator once.
    """

    config: PipelineConfig
    files: tuple[str, ...]
    provenance: Mapping[Path, str]
    notes: tuple[str, ...]
    secret_paths: frozenset[Path]

    def source_of(self, path: Path) -> str:
        """Return ``file:line`` of a key, or ``default``.

        A key inside a value in short form (``tracingHeaders: enabled``) has the position of that
        value.
        """
        above = (path[:length] for length in range(len(path), 0, -1))
        return next((self.provenance[p] for p in above if p in self.provenance), "default")


def load(
    paths: Iterable[str | FilePath],
    *,
    env: Mapping[str, str] | None = None,
    templates: bool = True,
    need_replication: bool = True,
    client_check: ClientCheck | None = None,
) -> Loaded:
    """Load the pipeline from ``paths``; later files override earlier ones.

    Args:
        paths: YAML files; one string may name several, separated by commas.
        env: variables for ``${env:…}``; defaults to the process environment.
        templates: fill ``${…}`` templates; otherwise they are kept verbatim.
        need_replication: reject files without a ``replication`` section (as used by Lenses'
            offset mapping application); otherwise only add a note on what they are good for.
        client_check: checks a cluster's properties against a client library; rejected properties
            are reported together with all other errors.

    Raises:
        ConfigError: reports every error of all files, each with its file and line.
    """
    files = _split(paths)
    log.info("reading %s", ", ".join(map(str, files)))
    problems: list[Problem] = []
    notes: list[str] = []
    tree = _merge_files(files, notes, problems)
    if templates:
        tree = Templates(os.environ if env is None else env, problems).fill(tree)
        tree = place_schema_files(tree)
    remember_secrets(_values(tree))
    if tree.at(("replication", "source", "topic")) is None:
        _replication_missing(tree, need_replication, notes, problems)
    config = validate(tree, problems)
    if client_check is not None:
        _check_clients(tree, client_check, notes, problems)
    if config is not None:
        if need_replication and config.copier != "k2ktui":
            problems.append(tree.problem(("copier",), _NOT_OURS))
        notes += map(str, noted_keys(tree, config))
        problems += refused_keys(tree, config)
    if config is None or problems:
        raise refuse(problems)
    if templates:
        config.source.set_origin(SectionOrigin(tuple(files), "source", env))
        config.target.set_origin(SectionOrigin(tuple(files), "target", env))
    return Loaded(
        config=config,
        files=tuple(files),
        provenance={path: str(node.mark) for path, node in tree.walk() if _is_value(path, node)},
        notes=tuple(notes),
        secret_paths=frozenset(_shown_at(path) for path, node in tree.walk() if node.secret),
    )


@dataclass(frozen=True)
class SectionOrigin(Origin):
    """A cluster's section of a pipeline's files; ``env`` None is the process environment."""

    files: tuple[str, ...]
    label: str
    env: Mapping[str, str] | None = field(default=None, compare=False, repr=False)

    def read(self) -> Reading:
        """Read the section again; what else the files have is neither filled nor checked.

        Raises:
            ConfigError: the files cannot be read now, or the section has errors.
        """
        problems: list[Problem] = []
        with noting_sources() as sources:
            tree = _merge_files(list(self.files), [], problems)
            section = tree.at((self.label,))
            only = replace(tree, value={} if section is None else {self.label: section})
            env = os.environ if self.env is None else self.env
            filled = Templates(env, problems).fill(only)
        cluster = validate_cluster(filled.at((self.label,)))
        if cluster is None:
            problems.append(Problem(None, self.label, "the section is missing or has errors"))
        if problems or cluster is None:
            raise refuse(problems)
        remember_secrets(_values(filled))
        rest = "\n".join(
            f"{path}: {without_userinfo(node.value)}"
            for path, node in tree.walk()
            if isinstance(node.value, Text) and not _is_renewed(path)
        )
        return Reading(
            cluster,
            frozenset(sources.files),
            frozenset(at for at in sources.variables if is_security_value(at[0])),
            sha256(rest.encode()).hexdigest(),
        )


def _is_renewed(path: Path) -> bool:
    return path[1:3] == ("registry", "headers") or any(is_security_value(str(p)) for p in path)


def read_layers(paths: Iterable[str | FilePath]) -> Node:
    """Return the merged tree of the files, with the model's keys and with templates as written.

    Raises:
        ConfigError: a file cannot be read.
    """
    problems: list[Problem] = []
    tree = _merge_files(_split(paths), [], problems)
    if problems:
        raise refuse(problems)
    return tree


def _values(tree: Node) -> Iterator[tuple[str, str]]:
    """Yield the text values with the names of their keys; a list's items have the list's name."""
    for path, node in tree.walk():
        name = next((step for step in reversed(path) if isinstance(step, str)), "")
        if isinstance(node.value, Text):
            yield name, node.value


def _is_value(path: Path, node: Node) -> bool:
    if isinstance(node.value, list):
        return not any(item.table for item in node.value)
    return node.value is not None and (path in _WHOLE or not isinstance(node.value, dict))


def _shown_at(path: Path) -> Path:
    """Return the model's path of the value at ``path``; the model joins some lists to strings."""
    for whole in _WHOLE:
        if path[: len(whole)] == whole:
            return whole
    return path[:-1] if isinstance(path[-1], int) else path


def _split(paths: Iterable[str | FilePath]) -> list[str]:
    parts = [part.strip() for path in paths for part in str(path).split(",")]
    files = [part for part in parts if part]
    if not files:
        raise ConfigError(
            "no configuration file was given", hint="Name a configuration file with -f FILE."
        )
    for file in files:
        if is_mirror_file(file):
            kind = "connector" if is_resource_file(file.partition("#")[0]) else "properties"
            raise ConfigError(
                f"{safe_text(file)} is a {kind} file, such as MirrorMaker 2's, and not a pipeline",
                hint="Convert it to a pipeline file: k2ktui mm2 import FILE -o pipeline.yaml",
            )
    return files


def _merge_files(files: list[str], notes: list[str], problems: list[Problem]) -> Node:
    speller = KeyAliases(notes, problems)
    read = [read_tree(file, problems) for file in files]
    layers = [speller.spell(tree) for tree in read if tree is not None]
    if len(layers) < len(files):
        # Validation would report keys as missing that the unreadable files may contain.
        raise refuse(problems)
    named = [layer.nearest(("name",)) for layer in layers if _has(layer, "name")]
    names = {str(node.value): node for node in named}
    mappers = _mappers(layers)
    layers = [
        replace(layer, value=_nameless(layer)) if layer in mappers else layer for layer in layers
    ]
    merged = reduce(lambda below, above: merge(below, above, _WHOLE), layers)
    if len(names) > 1:
        notes.append(_several_names(names, merged, mappers))
    return merged


def _mappers(layers: list[Node]) -> list[Node]:
    """Return the layers whose name is not the pipeline's but the offset mapping application's.

    Lenses' users give both applications the replicator's file, and the mapping application its own
    above it. Translation needs the name under which the mappings were written.
    """
    if not any(_has(layer, "replication") for layer in layers):
        return []
    named = [layer for layer in layers if _has(layer, "name")]
    mappers = [
        layer
        for layer in named
        if not _has(layer, "replication")
        and (_has(layer, "groups") or _has(layer, "offsetMapping"))
    ]
    # The only name is the pipeline's, wherever it is.
    return mappers if len(mappers) < len(named) else []


def _has(layer: Node, key: str) -> bool:
    node = layer.at((key,))
    return node is not None and node.value is not None


def _nameless(layer: Node) -> dict[str, Node]:
    return {key: node for key, node in layer.table.items() if key != "name"}


def _several_names(names: Mapping[str, Node], merged: Node, mappers: list[Node]) -> str:
    """Return the note that several pipelines were named as if they were layers of one."""
    listed = ", ".join(f"{safe_text(name, 60)} ({node.mark})" for name, node in names.items())
    name = merged.nearest(("name",)).value
    text = f"{SEVERAL_NAMES} {listed}: the files are layers of one pipeline, {safe_text(name, 60)}"
    others = {str(layer.nearest(("name",)).value) for layer in mappers} - {str(name)}
    if others:
        listed = ", ".join(safe_text(other, 60) for other in sorted(others))
        text += f"; {listed} names the mapping application and has no effect"
    return text


def _check_clients(
    tree: Node, check: ClientCheck, notes: list[str], problems: list[Problem]
) -> None:
    unfilled = {(problem.mark, problem.path) for problem in problems}
    for side in ("source", "target"):
        cluster = validate_cluster(tree.at((side,)))
        for finding in check(cluster) if cluster else ():
            path = (side, "kafka", finding.section, finding.key)
            problem = tree.problem(path, finding.message)
            if not finding.refused:
                notes.append(str(problem))
            elif (problem.mark, problem.path) not in unfilled:
                problems.append(problem)


def _replication_missing(
    tree: Node, needed: bool, notes: list[str], problems: list[Problem]
) -> None:
    if needed:
        owner = tree.nearest(("replication", "source"))
        wanted = "missing; select topics with replication: [{source: {topic: …}}, {sink: …}]"
        problems.append(Problem(owner.mark or FilePosition("", 0), "replication", wanted))
    else:
        notes.append(
            "no replication section: groups are translated with the mappings of the pipelines that "
            "copy between these clusters, and start has nothing to copy"
        )
