"""Which calls a command means: canonical arguments (RFC 8785, integers exact) and the hashes made of them (src/docs/workers.md)."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from .plain import plain, sound

# Deeper JSON in a text stays text, as in the engine.
DEPTH_MAX = 64
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


class _Number(str):
    """Source text of a number: its digits must not be rounded."""

    __slots__ = ()


def canonical(args: object) -> str:
    """Canonical text of arguments: `{}` where there are none, of a text that holds JSON that JSON, else the text itself."""
    return _text(parsed(args))


def fingerprint(tool: str, args: object, identity: Mapping[str, Any] | None = None) -> str | None:
    """What `scope.fingerprint` of a command is compared with, made as its `scope.identity` says. None: nothing can be made."""
    identity = identity or {}
    kind = "call" if identity.get("kind") is None else identity["kind"]
    if kind not in ("call", "coarse", "args"):
        return None
    value = parsed(args)
    if isinstance(value, dict):
        value = _chosen(value, kind, identity)
    before = {"call": f"{sound(tool)}\n", "coarse": f"{sound(tool)}:", "args": ""}[kind]
    return hashlib.sha256((before + _text(value)).encode()).hexdigest()[:32]


def call_sha256(tool: str, args: object) -> str:
    """Hash of tool, line feed and canonical arguments; 64 hex digits."""
    return hashlib.sha256(f"{sound(tool)}\n{canonical(args)}".encode()).hexdigest()


class _Json(str):
    """A JSON string that stood in a text: it is written with its quotes, where a bare text is not."""

    __slots__ = ()


def parsed(args: object) -> Any:
    """Arguments as a value; a plain `str` is a bare text."""
    if args is None:
        return {}
    if not isinstance(args, str):
        return plain(args)
    try:
        value = json.loads(args, parse_int=_Number, parse_float=_Number, parse_constant=_refuse)
        if _depth(value) > DEPTH_MAX or not _is_sound(value):
            return sound(args)
    except (ValueError, RecursionError):
        return sound(args)
    return _Json(value) if isinstance(value, str) and not isinstance(value, _Number) else value


def _chosen(value: dict[str, Any], kind: str, identity: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that count."""
    only, never = _names(identity.get("args")), _names(identity.get("args_ignored"))
    if kind == "coarse":
        return {key: item for key, item in value.items() if key in only} if only & value.keys() else value
    return {key: item for key, item in value.items() if (not only or key in only) and key not in never}


def _names(value: object) -> set[str]:
    return {name for name in value if isinstance(name, str)} if isinstance(value, list) else set()


def _text(value: Any) -> str:
    """Of a bare text itself, else canonical JSON."""
    return str(value) if type(value) is str else _written(value)


def _written(value: Any) -> str:
    if isinstance(value, _Number):
        return _number(value)
    if isinstance(value, str):
        return '"' + "".join(_escaped(char) for char in value) + '"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return _digits(value)
    if isinstance(value, float):
        return _number(repr(value))
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda member: member[0].encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_written(key)}:{_written(item)}" for key, item in members) + "}"
    return "[" + ",".join(_written(item) for item in value) + "]"


def _escaped(char: str) -> str:
    return _ESCAPES.get(char) or (f"\\u{ord(char):04x}" if char < " " else char)


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # Python writes no more than 4,300 digits that way
        return json.dumps(hex(value))


def _number(source: str) -> str:
    """A number as ECMAScript prints it; an integer keeps its digits, and what is beyond a double its source."""
    if not any(char in source for char in ".eE"):
        return "0" if source == "-0" else source
    value = float(source)
    if value == 0:
        return "0"
    if math.isinf(value):
        return source
    mantissa, _, power = repr(abs(value)).partition("e")
    whole, _, rest = mantissa.partition(".")
    rest = "" if rest == "0" else rest
    digits = (whole + rest).lstrip("0")
    # Digits before the decimal point.
    point = len(whole) + int(power or 0) - (len(whole + rest) - len(digits))
    digits = digits.rstrip("0") or "0"
    sign = "-" if value < 0 else ""
    if point > 21 or point <= -6:
        dot = "." if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{dot}{digits[1:]}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if len(digits) <= point:
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    return f"{sign}{digits[:point]}.{digits[point:]}"


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _depth(value: Any) -> int:
    """Levels of containers, counted without recursion."""
    deepest, left = 0, [(value, 0)]
    while left:
        item, level = left.pop()
        if isinstance(item, (dict, list)):
            deepest = max(deepest, level + 1)
            left += [(inner, level + 1) for inner in (item.values() if isinstance(item, dict) else item)]
    return deepest


def _is_sound(value: Any) -> bool:
    """Whether there is no half of a surrogate pair in it."""
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, dict):
        return all(_is_sound(key) and _is_sound(item) for key, item in value.items())
    return all(_is_sound(item) for item in value) if isinstance(value, list) else True
