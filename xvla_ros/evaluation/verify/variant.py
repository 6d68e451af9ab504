"""One way of running a network, as it is written on a command line: `dtype=bfloat16,steps=4`."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from xvla_ros.errors import UsageError

if TYPE_CHECKING:
    from xvla_ros.runtime.policy import LocalPolicy

# Commas inside the brackets of a time grid separate nothing.
_COMMA = re.compile(r",(?![^\[]*\])")
EXAMPLE = "dtype=bfloat16,steps=[1,.7,.4,.1]"


@dataclass(frozen=True)
class Variant:
    """Options of `runtime.policy.load_policy` by name; none is the exact network on this device."""

    options: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def parse(text: str) -> Variant:
        """The variant of `name=value,name=value`; values are written as in a parameter file.

        Raises:
            UsageError: a part has no `=`, or names no option.
        """
        options: dict[str, Any] = {}
        known = option_names()
        for part in filter(None, (word.strip() for word in _COMMA.split(text))):
            name, sign, value = (word.strip() for word in part.partition("="))
            if not sign or not value:
                raise UsageError(f"'{part}' is no option: write name=value, as in {EXAMPLE}")
            if name not in known:
                raise UsageError(f"'{name}' is no option; known: {', '.join(known)}")
            try:
                options[name] = yaml.safe_load(value)
            except yaml.YAMLError as error:
                raise UsageError(f"'{part}' cannot be read; write as in {EXAMPLE}") from error
        return Variant(options)

    @property
    def label(self) -> str:
        """As it would be written, options in the order of their names; `exact` for none."""
        words = (f"{name}={_text(self.options[name])}" for name in sorted(self.options))
        return ",".join(words) or "exact"

    def load(self, folder: Path) -> LocalPolicy:
        """The policy of a model folder, run in this way.

        Raises:
            CheckpointError, DeviceError: as `load_policy`.
            UsageError: a value is out of its range; the message names the variant.
        """
        from xvla_ros.runtime.policy import load_policy

        try:
            return load_policy(folder, **self.options)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{self.label}: {error}") from error


def option_names() -> tuple[str, ...]:
    """What a variant may choose."""
    from xvla_ros.runtime.policy import load_policy

    parameters = inspect.signature(load_policy).parameters.values()
    return tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(f"{item:g}" for item in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
