"""Errors of a model folder."""

from __future__ import annotations


class CheckpointError(ValueError):
    """A model folder that cannot be used; one message names the file, the key and the mend."""


class ConfigError(CheckpointError):
    """A configuration file with a missing, wrong or inconsistent value."""
