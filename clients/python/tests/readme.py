"""The pieces of code in README.md, to be run as they are written."""

import re
from pathlib import Path
from typing import Any


def run(heading: str, **names: Any) -> dict[str, Any]:
    """Runs the piece below a heading with these names given; the names that are there afterwards."""
    page = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    section = re.search(rf"^##+ {re.escape(heading)}$(.*?)(?=^##|\Z)", page, re.M | re.S)
    assert section, f"README.md has no heading {heading}"
    (piece,) = re.findall(r"^```python\n(.*?)^```$", section[1], re.M | re.S)
    assert len(piece.strip().splitlines()) <= 6, "a piece has five lines of code and an empty one"
    exec(compile(piece, "README.md", "exec"), names)
    return names
