"""Parameters of the node `xvla_policy`.

Three kinds: those of the wiring are fixed when the process starts (read only), those of the model
are read by `configure` and can change while the node is unconfigured, the others at any time.
"""

from __future__ import annotations

from typing import Any

from xvla_ros import names
from xvla_ros.model.time_grid import DEFAULT_STEPS, check_grid
from xvla_ros.observation import Limits, ViewSpec
from xvla_ros.parameters import checkpoint
from xvla_ros.parameters.nice import NICE
from xvla_ros.parameters.parameter import Parameter, Value, Values
from xvla_ros.runtime.options import DTYPES, IMAGES, QUANTIZATIONS
from xvla_ros.runtime.proprio import SOURCES, ProprioParams

SLOTS = 3
"""View slots of an X-VLA policy."""
RAW, COMPRESSED = "raw", "compressed"

_NO_GRID = (0.0,)
_LIMITS = Limits()
_PROPRIO = ProprioParams()


def _camera(slot: int) -> tuple[Parameter, ...]:
    first = slot == 0
    prefix = f"cameras.{slot}"
    return (
        Parameter(
            f"{prefix}.topic",
            names.camera(0) if first else "",
            f"Image topic of view {slot}, without `/compressed`; empty = the slot stays empty.",
            read_only=True,
        ),
        Parameter(
            f"{prefix}.transport",
            RAW,
            "raw = Image messages; compressed = CompressedImage messages on topic/compressed.",
            choices=(RAW, COMPRESSED),
            read_only=True,
        ),
        Parameter(
            f"{prefix}.required",
            True,
            "No inference without this view; false = it is masked while it is absent.",
            read_only=True,
        ),
        Parameter(
            f"{prefix}.rotate_180",
            False,
            "Turn the image upside down, for a camera that is mounted so.",
            read_only=True,
        ),
    )


MODEL_PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "model_path",
        "",
        "Folder of the checkpoint: config.json, safetensors, tokenizer. Read by configure.",
    ),
    Parameter(
        "device",
        "auto",
        "npu[:i], cuda[:i], cpu, or auto = the best that works. Read by configure.",
    ),
    Parameter(
        "domain_id",
        -1,
        "Domain of the checkpoint; -1 = that of the WidowX (Bridge). Read by configure.",
        minimum=-1,
        maximum=9999,
    ),
    Parameter(
        "denoising_steps",
        DEFAULT_STEPS,
        "Denoising steps of a prediction, evenly spaced. Read by configure.",
        minimum=1,
        maximum=50,
    ),
    Parameter(
        "time_grid",
        _NO_GRID,
        "Times of the denoising steps in their place, descending from 1, such as "
        "[1.0, 0.7, 0.4, 0.1]; [0.0] = as denoising_steps says. Read by configure.",
        minimum=0.0,
        maximum=1.0,
    ),
    Parameter(
        "dtype",
        "float32",
        "Number format of the network; another than float32 is an approximation. "
        "Read by configure.",
        choices=DTYPES,
    ),
    Parameter(
        "quantize",
        "none",
        "int8 = weights of the linear layers in 8 bits, an approximation; CPU only. "
        "Read by configure.",
        choices=QUANTIZATIONS,
    ),
    Parameter(
        "images",
        IMAGES[0],
        "How images are made ready: exact = as in training; fast = a third of the time, an "
        "approximation (docs/model_folder.md). Read by configure.",
        choices=IMAGES,
    ),
    Parameter(
        "view_cache",
        True,
        "Keep the features of an image until its camera shows another; changes no result. "
        "Read by configure.",
    ),
    Parameter(
        "threads",
        0,
        "CPU threads of the network; 0 = the fewest that a measurement finds about as fast as any. "
        "Read by configure.",
        minimum=0,
        maximum=512,
    ),
    *checkpoint.CHECKPOINT_PARAMETERS,
)
"""What the model is loaded with."""

POLICY_PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "robot_name",
        names.ROBOT,
        "Namespace of the driver's topics and prefix of the frames.",
        read_only=True,
    ),
    NICE,
    *MODEL_PARAMETERS,
    *(parameter for slot in range(SLOTS) for parameter in _camera(slot)),
    Parameter("policy_rate_hz", 2.0, "Rate of inferences, at most.", "Hz", 0.1, 30.0),
    Parameter(
        "instruction",
        "",
        "What to do, in words; empty = nothing. Also set by ~/instruction; a running task's own "
        "instruction goes first.",
    ),
    Parameter(
        "seed",
        -1,
        "Noise seed of every chunk; -1 = another one for each.",
        minimum=-1,
        maximum=2**31 - 1,
    ),
    Parameter(
        "proprio_source",
        _PROPRIO.source,
        "Pose given to the policy: commanded at the observation's time, commanded_future at the "
        "time when the chunk will arrive, or measured. Where no command is being followed it is "
        "always the measured one.",
        choices=SOURCES,
    ),
    Parameter(
        "proprio.max_plan_age_s",
        _PROPRIO.max_plan_age_s,
        "Without a plan for so long the measured pose is used.",
        "s",
        0.1,
        10.0,
    ),
    Parameter(
        "proprio.max_error_m",
        _PROPRIO.max_error_m,
        "An arm further from its command is not following: the measured pose is used.",
        "m",
        0.005,
        0.5,
    ),
    Parameter(
        "proprio.max_error_rad",
        _PROPRIO.max_error_rad,
        "An arm further from its command is not following: the measured pose is used.",
        "rad",
        0.02,
        3.0,
    ),
    Parameter(
        "inpaint_strength",
        _PROPRIO.inpaint_strength,
        "Under the scheduler's strategy inpaint: how firmly a chunk is made to go on from the "
        "plan; 0 = not at all.",
        "",
        0.0,
        1.0,
    ),
    Parameter(
        "observation.max_image_age_s",
        _LIMITS.max_image_age,
        "Oldest image of an observation.",
        "s",
        0.01,
        5.0,
    ),
    Parameter(
        "observation.max_skew_s",
        _LIMITS.max_skew,
        "Greatest distance in time of an image from the observation's reference time.",
        "s",
        0.001,
        1.0,
    ),
    Parameter(
        "joint_states_max_age_s",
        _LIMITS.joints_max_age,
        "Oldest joint state of an observation, and longest gap between two around its images.",
        "s",
        0.01,
        2.0,
    ),
    Parameter(
        "inference_timeout_s",
        10.0,
        "An inference that takes longer is reported as an error.",
        "s",
        0.5,
        600.0,
    ),
    Parameter(
        "stop_timeout_s",
        5.0,
        "How long deactivation and clean-up wait for a running inference.",
        "s",
        0.1,
        60.0,
    ),
    Parameter("task.settle_s", 2.0, "A task has settled after so long at rest.", "s", 0.2, 60.0),
    Parameter("task.settle_m", 0.005, "Motion below this is rest.", "m", 0.0001, 0.1),
    Parameter("task.settle_rad", 0.03, "Motion below this is rest.", "rad", 0.001, 1.0),
    Parameter(
        "task.stall_s",
        5.0,
        "A task ends after so long without input, or in error.",
        "s",
        0.5,
        600.0,
    ),
)


def views(values: Values) -> tuple[ViewSpec | None, ...]:
    """The view slots; the topic of a compressed camera is the one subscribed to."""
    return tuple(_view(values, slot) for slot in range(SLOTS))


def _view(values: Values, slot: int) -> ViewSpec | None:
    topic = str(values[f"cameras.{slot}.topic"])
    if not topic:
        return None
    if values[f"cameras.{slot}.transport"] == COMPRESSED:
        topic = names.compressed(topic)
    return ViewSpec(topic, bool(values[f"cameras.{slot}.required"]))


def rotated(values: Values) -> tuple[bool, ...]:
    """By view slot, whether the camera is mounted upside down."""
    return tuple(bool(values[f"cameras.{slot}.rotate_180"]) for slot in range(SLOTS))


def limits(values: Values) -> Limits:
    """Ages and skew of an observation."""
    return Limits(
        max_image_age=number(values["observation.max_image_age_s"]),
        max_skew=number(values["observation.max_skew_s"]),
        joints_max_age=number(values["joint_states_max_age_s"]),
    )


def proprio(values: Values) -> ProprioParams:
    """How the proprio is chosen."""
    source = next(s for s in SOURCES if s == values["proprio_source"])
    return ProprioParams(
        source=source,
        max_plan_age_s=number(values["proprio.max_plan_age_s"]),
        max_error_m=number(values["proprio.max_error_m"]),
        max_error_rad=number(values["proprio.max_error_rad"]),
        inpaint_strength=number(values["inpaint_strength"]),
    )


def load_options(values: Values) -> dict[str, Any]:
    """What `runtime.policy.load_policy` is given beside the folder."""
    domain_id, grid = int(number(values["domain_id"])), values["time_grid"]
    steps = values["denoising_steps"] if grid == _NO_GRID else grid
    same = {name: values[name] for name in ("device", "dtype", "quantize", "images", "view_cache")}
    return {
        **same,
        "domain_id": None if domain_id < 0 else domain_id,
        "steps": steps,
        "threads": int(number(values["threads"])) or None,
        "views": int(number(values["checkpoint.view_slots"])),
        "overrides": checkpoint.overrides(values),
        "sha256": str(values["checkpoint.sha256"]),
    }


def number(value: Value) -> float:
    """The value of a parameter that is a number."""
    assert isinstance(value, (int, float))
    return float(value)


def check(values: Values) -> str | None:
    """Why the values cannot be so together, or None."""
    if not values["cameras.0.topic"] or not values["cameras.0.required"]:
        return (
            "'cameras.0.topic' cannot be empty nor the view optional: "
            "the language model reads the instruction together with view 0"
        )
    grid = values["time_grid"]
    assert isinstance(grid, tuple)
    if grid != _NO_GRID:
        try:
            check_grid([number(t) for t in grid])
        except ValueError as error:
            return f"'time_grid': {error}; [0.0] = as denoising_steps says"
    topics: dict[Value, int] = {}
    for slot in range(SLOTS):
        topic = values[f"cameras.{slot}.topic"]
        if topic and topic in topics:
            return f"'cameras.{slot}.topic' is the topic of view {topics[topic]} too: {topic}"
        topics[topic] = slot
    return None
