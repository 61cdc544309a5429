"""Whatever a file holds, loading it either works or raises a ConfigError that can be printed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from k2ktui.config import load
from k2ktui.config.show import to_json, to_yaml
from k2ktui.config.validate import known_paths
from k2ktui.errors import ConfigError
from tests.support.schedule.examples import examples

FULL = Path(__file__).with_name("full.yaml").read_text(encoding="utf-8")
PATHS = [*known_paths()]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**20),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["${env:string:X}", "${", "5 seconds", ".*", "enabled", "source"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def load_and_show(text: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "p.yaml")
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            loaded = load([path], env={})
        except ConfigError as error:
            assert str(error).isprintable() or "\n" in str(error)
            assert "\x1b" not in str(error)
            return
        to_yaml(loaded, with_sources=True)
        to_json(loaded, with_sources=True)


@settings(deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=60))
@example("a: &a [*a]")
@example("<<: {a: b}")
@example("<<: [1]")
@example("? {a: b}\n: c")
@example("!!python/object:os.system x")
@example("a: !!binary x")
@example("- a\n- b")
@example("a: 1\n---\nb: 2")
@example("\ufeff\x00")
@example("replication: {source: a}")
@example("replication: [a, [b]]")
@example("coordination: {kafka: 5, commit: 6}")
@example("source: {kafka: {connection: {servers: {a: b}}}}")
def test_any_text(text: str) -> None:
    load_and_show(text)


@settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(PATHS), values), min_size=1, max_size=4))
def test_any_value_at_any_key(changes: list[tuple[tuple[str | int, ...], Any]]) -> None:
    tree = yaml.safe_load(FULL)
    tree["replication"] = {key: entry[key] for entry in tree["replication"] for key in entry}
    for path, value in changes:
        _put(tree, path, value)
    replication = tree.get("replication")
    if isinstance(replication, dict):
        tree["replication"] = [{key: entry} for key, entry in replication.items()]
    load_and_show(yaml.safe_dump(tree, allow_unicode=True))


def _put(tree: Any, path: tuple[str | int, ...], value: Any) -> None:
    for step in path[:-1]:
        tree = tree.get(step) if isinstance(tree, dict) else None
    if isinstance(tree, dict):
        tree[path[-1]] = value
