"""Where tables for people are printed."""

from __future__ import annotations

import os
import sys

from rich.console import Console

# In a file or a pipe nobody knows the width; 80 columns would cut every table to pieces.
_WIDTH = 132


def terminal() -> Console:
    """The standard output, wide enough for our tables where it is no terminal."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if known else _WIDTH)
