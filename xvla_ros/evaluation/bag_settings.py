"""From parameter files and options to what an evaluation on bags needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from xvla_ros import names
from xvla_ros.errors import UsageError
from xvla_ros.evaluation.bag.discovery import COMPRESSED_IMAGE, IMAGE, View, Wanted
from xvla_ros.evaluation.open_loop import OpenLoopSettings
from xvla_ros.parameters import policy, scheduler
from xvla_ros.parameters.evaluation import EVALUATE, EVALUATION_PARAMETERS
from xvla_ros.parameters.files import ParameterFileError, read_file, read_text
from xvla_ros.parameters.parameter import Parameter, Values, defaults

SECTIONS: dict[str, tuple[Parameter, ...]] = {
    names.POLICY_NODE: policy.POLICY_PARAMETERS,
    names.SCHEDULER_NODE: scheduler.SCHEDULER_PARAMETERS,
    EVALUATE: EVALUATION_PARAMETERS,
}
PARAMETERS_KEY = "xvla_ros.parameters"
"""Key of a bag's custom data: text of the parameter file that the recorded nodes ran with."""


@dataclass(frozen=True)
class ModelOptions:
    """What a policy is loaded with."""

    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `load_policy`."""


@dataclass(frozen=True)
class Plan:
    """Everything that one bag's evaluation depends on, besides the bag."""

    model: ModelOptions
    settings: OpenLoopSettings
    clock: str = "auto"
    wanted: Wanted = field(default_factory=Wanted)
    given: bool = False
    """A parameter file was given: what a bag says about its own parameters is not asked."""
    values: Mapping[str, Values] = field(default_factory=dict)
    """All parameters by section, defaults included."""
    told: str = ""
    """Instruction in the bag's own parameters, where no topic of it says any."""

    def for_bag(self, custom: Mapping[str, str]) -> Plan:
        """The plan with the cameras and the instruction that the recorded nodes had.

        Args:
            custom: the bag's custom data.

        Raises:
            ParameterFileError: what the bag carries is no parameter file.
        """
        text = custom.get(PARAMETERS_KEY, "")
        if self.given or not text:
            return self
        found = read_text(text, f"custom data {PARAMETERS_KEY}", SECTIONS)
        values = {**defaults(policy.POLICY_PARAMETERS), **found[names.POLICY_NODE]}
        wanted = replace(_wanted(found, values, {}), any_transport=True)
        return replace(self, wanted=wanted, told=str(values["instruction"]))


def plan(
    params: Path | None, model: Path | None, default_model: Path, options: Mapping[str, Any]
) -> Plan:
    """The plan of a command line.

    Args:
        params: parameter file, or None.
        model: model folder; None takes the parameter file's, else the default.
        default_model: the demonstration checkpoint.
        options: `instruction`, `rate`, `seeds`, `seed`, `baselines`; None leaves the parameter
            file's value. `run`: arguments of `load_policy` that go before the file's.

    Raises:
        ParameterFileError: see `parameters.files`.
        UsageError: values that do not fit together.
    """
    found = read_file(params, SECTIONS) if params is not None else {n: {} for n in SECTIONS}
    values = {name: {**defaults(SECTIONS[name]), **found[name]} for name in SECTIONS}
    own, evaluate = values[names.POLICY_NODE], values[EVALUATE]
    for key, option in (
        ("instruction", "instruction"),
        ("policy_rate_hz", "rate"),
    ):
        if options.get(option) is not None:
            parameter = next(p for p in policy.POLICY_PARAMETERS if p.name == key)
            own[key] = parameter.check(options[option])
    try:
        scheduler_params, executor_params = scheduler.build(values[names.SCHEDULER_NODE])
    except ValueError as error:
        raise UsageError(f"{params}: {error}") from error
    reason = policy.check(own)
    if reason and params is not None:
        raise ParameterFileError(f"{params}: {reason}")
    folder = model or Path(str(own["model_path"]) or default_model)
    seed = int(policy.number(own["seed"]))
    number = {name: policy.number(evaluate[name]) for name in _NUMBERS}
    return Plan(
        model=ModelOptions(
            folder=folder,
            options=policy.load_options(own) | dict(options.get("run", {})),
        ),
        settings=OpenLoopSettings(
            policy_rate_hz=policy.number(own["policy_rate_hz"]),
            seeds=int(options.get("seeds") or 1),
            seed=int(options.get("seed") or 0),
            fixed_seed=seed if seed >= 0 else None,
            instruction=str(own["instruction"]),
            limits=policy.limits(own),
            episode_gap_s=number["episode_gap_s"],
            truth_max_gap_s=number["truth_max_gap_s"],
            velocity_window_s=number["velocity_window_s"],
            closed_above=number["gripper_closed_above"],
            baselines=bool(options.get("baselines", True)),
            scheduler=scheduler_params,
            executor=executor_params,
        ),
        clock=str(evaluate["clock"]),
        wanted=_wanted(found, own, found[EVALUATE]),
        given=params is not None,
        values=values,
    )


_NUMBERS = ("episode_gap_s", "truth_max_gap_s", "velocity_window_s", "gripper_closed_above")


def _wanted(found: Mapping[str, Values], values: Values, evaluate: Values) -> Wanted:
    """The topics that a file names; what it does not name is looked for."""
    given = found[names.POLICY_NODE]
    cameras: list[View] = []
    if any(key.startswith("cameras.") and key.endswith(".topic") for key in given):
        rotated = policy.rotated(values)
        for slot, view in enumerate(policy.views(values)):
            if view is not None:
                compressed = values[f"cameras.{slot}.transport"] == policy.COMPRESSED
                kind = COMPRESSED_IMAGE if compressed else IMAGE
                cameras.append(View(slot, view.topic, kind, view.required, rotated[slot]))
    joints = str(evaluate.get("joint_states_topic", ""))
    if not joints and "robot_name" in given:
        joints = names.joint_states(str(values["robot_name"]))
    return Wanted(
        tuple(cameras),
        joints,
        str(evaluate.get("instruction_topic", "")),
        str(evaluate.get("episode_topic", "")),
    )
