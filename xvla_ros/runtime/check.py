"""What `xvla doctor` is made of."""

from __future__ import annotations

from collections.abc import Callable

Check = Callable[[], str]
"""Returns what it found, or raises `Problem`."""


class Problem(Exception):
    """What a check found wrong, with the mend."""
