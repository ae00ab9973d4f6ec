"""What Python's JSON keeps of a number."""

import math
from typing import Any


def is_exact(value: Any) -> bool:
    """Whether no number in it was beyond a double."""
    return not any(math.isinf(number) for number in _numbers(value))


def _numbers(value: Any) -> list[float]:
    if isinstance(value, float):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [number for item in inner for number in _numbers(item)]
