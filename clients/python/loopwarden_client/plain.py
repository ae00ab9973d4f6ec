"""Makes values that frameworks hand over fit into an event: JSON, bounded, and never an error."""

import dataclasses
import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Set
from typing import Any

# Two of these and the rest of an event stay below the 256 KiB that the engine takes. Bytes of JSON.
CONTENT_BYTES_MAX = 96 * 1024
# As the engine: deeper JSON is refused there.
DEPTH_MAX = 60
NAME_CHARS_MAX = 256


# Values in one content; more, and only its hash is sent.
VALUES_MAX = 50_000


def plain(value: object) -> Any:
    """The value made of what JSON knows. What JSON does not know is its text; what is too deep is left out.

    Raises ValueError for more than 50,000 values, and whatever a stranger's object raises while it is looked at.
    """
    return _plain(value, 0, itertools.count())


def _plain(value: object, depth: int, seen: "itertools.count[int]") -> Any:
    if next(seen) > VALUES_MAX:
        raise ValueError("too many values")
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return sound(value)
    if depth >= DEPTH_MAX:
        return "…"
    if isinstance(value, Mapping):
        return {sound(str(key)): _plain(item, depth + 1, seen) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1, seen) for item in value]
    if isinstance(value, Set):
        # Sets have no order: the same set must give the same text.
        return sorted((_plain(item, depth + 1, seen) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    if isinstance(value, (bytes, bytearray)):
        return "sha256:" + hashlib.sha256(value).hexdigest()
    dump = getattr(value, "model_dump", None)  # pydantic
    if callable(dump) and not isinstance(value, type):
        return _plain(dump(mode="json"), depth + 1, seen)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _plain(fields, depth + 1, seen)
    return sound(str(value))


def sound(text: str) -> str:
    """The text with U+FFFD for each half of a surrogate pair that stands alone, which no encoder takes."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def name(text: object, default: str = "unknown") -> str:
    """A name as the wire allows it: 1 to 256 characters, none of them a control character."""
    kept = "".join(char for char in text_of(text) if char >= " " and char != "\x7f")[:NAME_CHARS_MAX]
    return kept or default


def content(field: str, value: object) -> dict[str, Any]:
    """`field` with the value, or with its hash and size where it is too large for an event."""
    try:
        made = plain(value)
        text = json.dumps(made, sort_keys=True).encode()
    except Exception:  # noqa: BLE001 - a stranger's object: too large, or broken
        return {f"{field}_sha256": hashlib.sha256(text_of(value).encode()).hexdigest()}
    if len(text) <= CONTENT_BYTES_MAX:
        return {field: made}
    return {f"{field}_sha256": hashlib.sha256(text).hexdigest(), f"{field}_bytes": len(text)}


def text_of(value: object) -> str:
    """Text of anything: its own, or the name of its type where it can make none."""
    try:
        return sound(str(value))
    except Exception:  # noqa: BLE001 - a stranger's object
        return f"<{type(value).__name__}>"
