"""Cases of the transcript: the file of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.commands.transcript import Typed, typed
from tests.support.console.views import SOURCE_ID
from tests.support.pipelines.surveys import FAILED, answers, surveyed
from tests.unit.golden.cases.common import Cases
from tests.unit.golden.cases.mirrormaker import MM2

CLIENT = """bootstrap.servers=src:9092
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="k" password="of-the-file";
acks=all
"""  # noqa: E501


def config_validate(folder: Path) -> list[Typed]:
    """Valid; an unknown key; a wrong value; no YAML."""
    text = (folder / "orders.yaml").read_text()
    (folder / "key.yaml").write_text(text + "onSourceDataLos: fail\n")
    (folder / "value.yaml").write_text(text + "onSourceDataLoss: perhaps\n")
    (folder / "broken.yaml").write_text("name: [orders\n")
    return [
        typed("config validate -f orders.yaml"),
        typed("config validate -f orders.yaml --json"),
        *(typed(f"config validate -f {name}.yaml") for name in ("key", "value", "broken")),
    ]


def config_show(_: Path) -> list[Typed]:
    """The merged file, as YAML and JSON, and where values come from."""
    return [
        typed("config show -f orders.yaml"),
        typed("config show -f orders.yaml --json"),
        typed("config show -f orders.yaml --sources"),
    ]


def config_reverse(_: Path) -> list[Typed]:
    """The opposite pipeline's file."""
    return [typed("config reverse -f orders.yaml"), typed("config reverse -f orders.yaml --json")]


def init(folder: Path) -> list[Typed]:
    """By options; asked, with logins; what is refused; of MirrorMaker 2; checks that fail."""
    both, write = "--source src:9092 --target dst:9092", "--topics orders\\..* --yes"
    (folder / "client.properties").write_text(CLIENT)
    (folder / "mm2.properties").write_text(MM2)
    plain, same = "src:9092\n\ndst:9092\n\n", surveyed(ids=(SOURCE_ID, SOURCE_ID))
    login = "SASL_SSL\n-\n\nops\n/no/file\nnot a name\nPASSWORD_OF_SOURCE\nsecret\n"
    return [
        typed(f"init {both} {write} -o new.yaml", answers()),
        typed(f"init {both} {write} -o new.yaml", answers()),
        typed(f"init {both} {write} -o json.yaml --json", answers()),
        typed(f"init {both} {write} -o failed.yaml", answers(checks=FAILED)),
        typed(f"init {both} --yes", answers()),
        typed(f"init --source-config client.properties --target dst:9092 {write} -o c.yaml",
              answers()),
        typed(f"init {both} {write} -o other.yaml", answers(same)),
        typed(f"init {both} --topics ( --yes -o other.yaml", answers()),
        typed(f"init {both} --yes -o other.json", answers()),
        typed("init --source gone:9092 --target dst:9092 --yes", answers()),
        typed("init --from mm2.properties --yes", answers()),
        typed("init --from mm2.properties --source src:9092"),
        typed("init"),
        typed("init --source-config client.properties --json"),
        typed("init", answers(), keys=f"{plain}2,3\nasked.yaml\ny\n"),
        typed("init", answers(), keys=f"gone:9092\n\n{plain}none\n(\n9\n1\n\nno.yaml\nn\n"),
        typed("init", answers(), keys=f"src\nsrc:9092\n{login}dst:9092\nPLAINTEXT\n1\n"
              "new.yaml\nsecured.yaml\n\n"),
        typed("init --from mm2.properties", answers(), keys="from.yaml\ny\n"),
    ]  # fmt: skip


CASES: Mapping[str, Cases] = {
    "init": init,
    "config validate": config_validate,
    "config show": config_show,
    "config reverse": config_reverse,
}
