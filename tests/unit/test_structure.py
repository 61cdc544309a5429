"""The modules form no import cycle, deferred and type-checking imports included."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "k2ktui"

Graph = dict[str, frozenset[str]]


def read_modules(root: Path, package: str) -> dict[str, tuple[ast.Module, bool]]:
    """Each module's name, its syntax tree, and whether it is a package."""
    modules = {}
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules[name] = ast.parse(path.read_text("utf-8"), str(path)), is_package
    return modules


def read_graph(root: Path, package: str) -> Graph:
    """For each module, the modules it imports anywhere in its text."""
    modules = read_modules(root, package)
    names = frozenset(modules)
    return {
        name: frozenset(find_imports(tree, name, is_package, names)) - {name}
        for name, (tree, is_package) in modules.items()
    }


def find_imports(
    tree: ast.Module, module: str, is_package: bool, names: frozenset[str]
) -> Iterator[str]:
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve(node, module, is_package)
            for alias in node.names:
                # `from package import module` imports the module, not what __init__.py defines.
                child = f"{base}.{alias.name}"
                imported = child if child in names else base
                if imported in names:
                    yield imported


def statements(block: ast.AST) -> Iterator[ast.AST]:
    """Yield every statement, also of functions, but no expressions: they import nothing."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(block, part, ()):
            yield node
            yield from statements(node)


def resolve(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """The absolute name of what `from … import` imports from."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    package = parts[: len(parts) - node.level + is_package]
    return ".".join([*package, *([node.module] if node.module else [])])


def find_cycles(graph: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """One shortest cycle of each group of modules that import each other."""
    reachable = {module: reach(graph, module) for module in graph}
    cycles = []
    grouped: set[str] = set()
    for module in sorted(graph):
        if module in reachable[module] and module not in grouped:
            grouped |= {other for other in reachable[module] if module in reachable[other]}
            cycles.append(shortest_way_back(graph, module))
    return cycles


def reach(graph: Mapping[str, frozenset[str]], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting.extend(graph[module])
    return reached


def shortest_way_back(graph: Mapping[str, frozenset[str]], start: str) -> list[str]:
    ways = [[start]]
    visited: set[str] = set()
    for way in ways:
        for module in sorted(graph[way[-1]]):
            if module == start:
                return [*way, start]
            if module not in visited:
                visited.add(module)
                ways.append([*way, module])
    raise AssertionError(f"{start} is in no cycle")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return read_graph(ROOT, PACKAGE)


def test_no_module_imports_itself_through_others(graph: Graph) -> None:
    cycles = find_cycles(graph)
    assert not cycles, "import cycles:\n" + "\n".join(" -> ".join(cycle) for cycle in cycles)


def test_the_graph_holds_the_modules_of_the_package(graph: Graph) -> None:
    assert len(graph) > 100
    assert "k2ktui.engine.mapping.ranges" in graph["k2ktui.engine.mapping.translate"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("import app.b", "import app.a", id="plain"),
        pytest.param("from app import b", "from app.a import x", id="from the package"),
        pytest.param("from . import b", "from .a import x", id="relative"),
        pytest.param("def f():\n    import app.b", "import app.a", id="deferred"),
        pytest.param(
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from app.b import x",
            "import app.a",
            id="type checking",
        ),
    ],
)
def test_a_cycle_is_named(tmp_path: Path, first: str, second: str) -> None:
    package = tmp_path / "app"
    package.mkdir()
    for name, text in {"__init__": "", "a": first, "b": second, "c": "import app.a"}.items():
        (package / f"{name}.py").write_text(text, "utf-8")
    assert find_cycles(read_graph(tmp_path, "app")) == [["app.a", "app.b", "app.a"]]


def test_modules_in_layers_form_no_cycle(tmp_path: Path) -> None:
    package = tmp_path / "app"
    (package / "low").mkdir(parents=True)
    texts = {"__init__": "", "low/__init__": "from . import b", "low/b": "", "a": "import app.low"}
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text, "utf-8")
    assert find_cycles(read_graph(tmp_path, "app")) == []


# Words that say nothing of what a variable holds: ``topics``, ``offsets`` or ``partition`` do.
_VAGUE = frozenset({"found", "each"})


def find_vague(tree: ast.AST) -> Iterator[str]:
    """Yield a text for each variable and argument that has such a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in _VAGUE:
            yield f"line {node.lineno}: {node.id}"
        elif isinstance(node, ast.arg) and node.arg in _VAGUE:
            yield f"line {node.lineno}: {node.arg}"


def test_variables_say_what_they_hold() -> None:
    modules = read_modules(ROOT, PACKAGE)
    vague = [f"{m}, {text}" for m, (tree, _) in modules.items() for text in find_vague(tree)]
    assert not vague, "rename these variables: topics, offsets or partition say what they hold"


@pytest.mark.parametrize(
    "text",
    [
        "found = 1",
        "for each in x: pass",
        "def f(found): pass",
        "[each for each in x]",
        "(found, _) = x",
    ],
)
def test_a_vague_name_is_refused(text: str) -> None:
    assert list(find_vague(ast.parse(text)))
