"""Values of a JSON configuration, each with the type of the default it replaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

from xvla_ros.model.errors import ConfigError

_MAY_BE_ZERO = ("patch_padding", "depths", "depth", "encoder_layers", "len_soft_prompts")


def section(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The object under a key; empty if it is absent.

    Raises:
        ConfigError: it is no object.
    """
    value = content.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{key} must be an object, not {value!r}")
    return dict(value)


def number(content: Mapping[str, Any], key: str, default: Any) -> int:
    """A positive integer; raises ConfigError for anything else."""
    value = content.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ConfigError(f"{key} must be a positive integer, not {value!r}")
    return value


def fields_of(kind: type, content: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The fields of a dataclass that `content` states, each checked against its default."""
    defaults = vars(kind())
    out: dict[str, Any] = {}
    for key, default in defaults.items():
        if key not in content or is_dataclass(default):
            continue
        label = f"{where}.{key}" if where else key
        out[key] = _like(default, content[key], label)
    return out


def _like(default: Any, value: Any, label: str) -> Any:
    if isinstance(default, tuple):
        if not isinstance(value, (list, tuple)):
            raise ConfigError(f"{label} must be a list, not {value!r}")
        return tuple(_like(default[0], item, label) for item in value)
    if isinstance(default, (bool, str)):
        if not isinstance(value, type(default)):
            raise ConfigError(f"{label} must be a {type(default).__name__}, not {value!r}")
        return value
    good = isinstance(value, (int, float) if isinstance(default, float) else int)
    least = 0 if label.rpartition(".")[2] in _MAY_BE_ZERO else 1e-9
    if isinstance(value, bool) or not good or value < least:
        raise ConfigError(f"{label} must be a positive {type(default).__name__}, not {value!r}")
    return value
