"""What a command says when the user, not the program, must mend something."""

from __future__ import annotations


class UsageError(Exception):
    """Wrong usage or environment: one line with cause and mend; the command ends with code 2."""
