"""Compiles the Protobuf schemas of a registry, which are texts, to a set of descriptors.

Google's compiler does it, as ``grpcio-tools`` packs it. (Registries give descriptors as well, but
not soundly: Apicurio Registry 3.3 sends them as text, and moves imported messages into the file.)
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from k2ktui.engine.schemas.model import PROTOBUF, Schema, SchemaVersion

_DEEPEST = 100
_TIMEOUT_S = 60.0
# Lines of the compiler that are not errors, and those of its log.
_WARNING = re.compile(r"^WARNING:|^[A-Z]\d{4}|warning:")


def collect_files(
    schema: Schema, version: Callable[[str, int], SchemaVersion | None]
) -> tuple[str, dict[str, str]]:
    """Return the name of a schema's file, and the texts of it and of its imports by file.

    Args:
        schema: the schema.
        version: reads a version of a subject; None if the registry does not have it.

    Raises:
        ValueError: an import is missing or is not Protobuf.
    """
    files: dict[str, str] = {}

    def add(schema: Schema, depth: int) -> None:
        for reference in schema.references:
            if reference.name in files:
                continue
            imported = version(reference.subject, reference.version)
            if imported is None or imported.schema.type != PROTOBUF or depth >= _DEEPEST:
                raise ValueError(f"its import {reference.name} is not in the registry")
            files[reference.name] = imported.schema.text
            add(imported.schema, depth + 1)

    add(schema, 0)
    main = "schema.proto"
    while main in files:
        main = f"_{main}"
    return main, {**files, main: schema.text}


def compile_files(main: str, files: dict[str, str]) -> bytes:
    """Return a serialized ``FileDescriptorSet`` of a file and its imports.

    Args:
        main: name of the file.
        files: texts by name; Google's own files are known.

    Raises:
        ValueError: the compiler rejects a text, or a name is not one of a file.
    """
    with tempfile.TemporaryDirectory(prefix="k2ktui-protobuf-") as directory:
        for name, text in files.items():
            path = PurePosixPath(name)
            # Names come from the registry, and must not lead out of the directory.
            if path.is_absolute() or ".." in path.parts or not name.isprintable():
                raise ValueError(f"its import {name} is not the name of a file")
            file = Path(directory, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        out = Path(directory, "descriptors")
        try:
            done = subprocess.run(
                [
                    *(sys.executable, "-I", "-m", "grpc_tools.protoc", "-I.", "--include_imports"),
                    *(f"--descriptor_set_out={out}", main),
                ],
                cwd=directory,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ValueError(f"the compiler needs more than {_TIMEOUT_S:g} s") from error
        if done.returncode or not out.exists():
            errors = (line for line in done.stderr.splitlines() if not _WARNING.search(line))
            raise ValueError(next(errors, "the compiler rejects it"))
        return out.read_bytes()
