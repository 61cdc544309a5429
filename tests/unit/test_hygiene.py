"""What a linter cannot check: help texts, formats of durations, how tests run commands."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from k2ktui.cli.main import cli

PACKAGE = Path(__file__).parents[2] / "k2ktui"


def _modules() -> list[str]:
    return sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))


TESTS = sorted(
    path
    for folder in ("tests", "bench")
    for path in (PACKAGE.parent / folder).rglob("*.py")
    if path != Path(__file__)
)


def test_commands_in_a_tests_process_fail_with_their_exception() -> None:
    """Click's runner keeps an exception to itself: the output is empty, and lacks everything."""
    users = [path.name for path in TESTS if "CliRunner(" in path.read_text()]
    assert users == ["in_process.py"]


# The difference between two clocks; figures of a drill's report and the demo's output in a column.
OWN_SECONDS = {
    "demo/screen.py",
    "drill/checks/reachability.py",
    "drill/report.py",
    "replication/preflight/clusters.py",
    "text.py",
}
SECONDS = re.compile(r":[,.0-9]*f\} s\b")


def test_measured_durations_have_one_format() -> None:
    lines = [
        f"k2ktui/{name}:{source.count(chr(10), 0, hit.start()) + 1}"
        for name in sorted({*_modules()} - OWN_SECONDS)
        for source in [(PACKAGE / name).read_text()]
        for hit in SECONDS.finditer(source)
    ]
    assert not lines, "use k2ktui.text.duration"


def _commands(command: click.Command, path: str = "k2ktui") -> Iterator[tuple[str, click.Command]]:
    """Yield a command and its subcommands with their names."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            assert subcommand is not None
            yield from _commands(subcommand, f"{path} {name}")


@pytest.mark.parametrize(
    ("path", "command"), list(_commands(cli)), ids=lambda command: str(command)
)
def test_every_option_has_a_help_text(path: str, command: click.Command) -> None:
    """A help text is a sentence or a noun phrase: a capital or a name first, a full stop last."""
    if command.hidden:
        return
    options = [param for param in command.params if isinstance(param, click.Option)]
    for option in (option for option in options if not option.hidden):
        text = (option.help or "").split("  [")[0]
        assert text.endswith(".") and not text.startswith("How "), f"{path} {option.opts}: {text!r}"


def test_what_hides_a_cause_says_why() -> None:
    """The cause is in the log; only a secret, or a cause that cannot be printed, is a reason."""
    unexplained = [
        f"k2ktui/{name}:{number + 1}"
        for name in _modules()
        for lines in [(PACKAGE / name).read_text().splitlines()]
        for number, line in enumerate(lines)
        if line.endswith(" from None") and "cause" not in lines[number - 1].lower()
    ]
    assert not unexplained, "raise … from error, or say in the line above why not"


# Modules whose distribution has another name; the longest one counts.
DISTRIBUTIONS = {
    "aws_msk_iam_sasl_signer": "aws-msk-iam-sasl-signer-python",
    "dns": "dnspython",
    "confluent_kafka.schema_registry": "confluent-kafka[schemaregistry]",
    "google.protobuf": "protobuf",
    "jks": "pyjks",
    "kafka": "kafka-python",
    "lz4.frame": "lz4",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.exporter.prometheus": "opentelemetry-exporter-prometheus",
    "opentelemetry.metrics": "opentelemetry-api",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "yaml": "PyYAML",
}
# The extras that a part of the program may need; the first path that fits counts.
EXTRAS = {
    "compare/transform_tasks.py": {"spark", "transform"},
    "drill/dns_server.py": {"dns"},
    "kafka/auth/java_stores.py": {"jks"},
    "kafka/auth/msk.py": {"msk"},
    "registry/_confluent.py": {"schemas"},
    "replication/transforms/": {"spark", "transform", "avro", "protobuf"},
    "replication/": {"spark"},
    "runtime/": {"spark"},
    "sync/records/schema_decoder.py": {"avro", "protobuf"},
    "tables/": {"spark", "tables"},
}


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that a file imports anywhere, by name or with ``import_module``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            match node.args[0]:
                case ast.Constant(value=str(module)) if name == "import_module":
                    yield module


def _distribution(module: str) -> str:
    parts = module.split(".")
    names = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    known = [DISTRIBUTIONS[name] for name in names if name in DISTRIBUTIONS]
    return (known or [parts[0].replace("_", "-")])[0]


def _declared() -> dict[str, set[str]]:
    """Return each distribution that pyproject.toml declares, and by which extras ("": always)."""
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    lists = {"": project["dependencies"], **project["optional-dependencies"]}
    declared: dict[str, set[str]] = {}
    for extra, requirements in lists.items():
        for requirement in requirements if extra != "dev" else []:
            declared.setdefault(re.split("[<>=]", requirement)[0], set()).add(extra)
    return declared


@pytest.mark.parametrize("name", _modules())
def test_what_is_imported_is_declared(name: str) -> None:
    """Another package may bring it today, and not tomorrow."""
    allowed = next((extras for path, extras in EXTRAS.items() if name.startswith(path)), set())
    declared = _declared()
    undeclared = {
        module
        for module in _imported(ast.parse((PACKAGE / name).read_text()))
        if module.partition(".")[0] not in {"k2ktui", "__future__", *sys.stdlib_module_names}
        and not declared.get(_distribution(module), set()) & {"", *allowed}
    }
    assert not undeclared, "declare it in pyproject.toml, or the extra in EXTRAS"
