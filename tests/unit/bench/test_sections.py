"""Sections of RESULTS.md outlive each other and a new report."""

from __future__ import annotations

from pathlib import Path

from bench.sections import put_section, sections


def test_a_section_takes_the_place_of_its_last_version(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    assert sections(path) == ""
    path.write_text("# Results\n")
    put_section(path, "one", "1\n")
    put_section(path, "two", "2\n")
    put_section(path, "one", "1 again\n")
    assert path.read_text().startswith("# Results\n\n<!-- one -->\n1 again\n<!-- /one -->\n")
    kept = sections(path)
    assert kept.count("<!-- one -->") == kept.count("<!-- two -->") == 1
    path.write_text("# New results\n" + kept)
    assert "1 again" in path.read_text() and "2\n" in path.read_text()
