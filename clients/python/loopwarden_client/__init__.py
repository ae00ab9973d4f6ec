"""Client of loopwarden's guard: asks before and after each tool call of an agent, and fails open."""

from .aio import AsyncGuard, AsyncStep
from .breaker import Breaker
from .commands import Commands
from .decision import Decision
from .events import Call, user_message
from .follower import Follower
from .guard import Guard, Step

__all__ = ["AsyncGuard", "AsyncStep", "Breaker", "Call", "Commands", "Decision", "Follower", "Guard", "Step", "user_message"]
