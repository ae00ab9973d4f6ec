"""What the package promises about itself."""

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "loopwarden_client"
ADAPTERS = sorted(path for path in (PACKAGE / "adapters").glob("*.py") if path.name != "__init__.py")


def imported(path: Path) -> set[str]:
    """Top names of modules that a file imports at any place of it, relative ones left out."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


def test_the_package_needs_nothing_but_the_standard_library() -> None:
    for path in PACKAGE.glob("*.py"):
        assert imported(path) - set(sys.stdlib_module_names) <= ({"confluent_kafka"} if path.name == "follower.py" else set()), path


@pytest.mark.parametrize("path", ADAPTERS, ids=lambda path: path.stem)
def test_an_adapter_is_short_and_has_a_test(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 100
    assert path.stem == "shared" or (Path(__file__).parent / f"test_{path.stem}.py").exists()


def test_there_are_ten_frameworks() -> None:
    page = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    named = {path.stem for path in ADAPTERS} - {"shared"}
    assert len(named) == 10 and all(f"loopwarden_client.adapters.{name} " in page for name in named)
