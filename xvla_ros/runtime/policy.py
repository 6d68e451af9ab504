"""Predicting chunks in this process: one observation in, one chunk in the canonical frame out.

Everything that is particular to a checkpoint (frame, rotation layout, gripper sense, step time,
image and text format) ends here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from xvla_ros import ee6d
from xvla_ros.geometry import Pose
from xvla_ros.model.checkpoint import load_checkpoint
from xvla_ros.model.config import VIEWS, XVLAConfig
from xvla_ros.model.conventions import Conventions, Overrides, read_conventions
from xvla_ros.model.fit import check_fit
from xvla_ros.model.precision import number_formats
from xvla_ros.model.prepare import forms, prepare
from xvla_ros.model.processor import Processor
from xvla_ros.model.sampler import Guide
from xvla_ros.model.time_grid import DEFAULT_STEPS
from xvla_ros.model.weights_hash import check_hash, hash_weights, weights_hash
from xvla_ros.model.xvla import XVLA
from xvla_ros.runtime.context import ContextMaker
from xvla_ros.runtime.device import Device, resolve_device
from xvla_ros.runtime.interface import (
    Policy,
    PolicyInput,
    Prediction,
    PredictionError,
    Prefix,
)
from xvla_ros.runtime.options import EXACT, FAST, RunOptions, parse_steps
from xvla_ros.runtime.stages import DENOISING, POST, Stages, untimed
from xvla_ros.runtime.threads import fewest_threads, times_by_threads

__all__ = [
    "LocalPolicy",
    "Policy",
    "PolicyInput",
    "Prediction",
    "PredictionError",
    "load_policy",
]

Array = NDArray[np.float64]

# Torch's own choice, before anybody has made another.
_MOST_THREADS = torch.get_num_threads()


class LocalPolicy:
    """A network in this process. One thread at a time may use it."""

    def __init__(
        self,
        model: XVLA,
        processor: Processor,
        conventions: Conventions,
        device: Device,
        options: RunOptions,
        model_hash: Future[str],
    ) -> None:
        domain = conventions.domain
        self.conventions = conventions.describe()
        self.doubts = tuple(conventions.doubts())
        self.horizon = model.config.num_actions
        self.step_dt = domain.step_dt
        self.domain_id = domain.id
        self.gripper_threshold = domain.close_above
        self.open_below = domain.open_below
        self.num_views = options.views
        self.time_grid = options.time_grid
        self.approximation = options.approximation
        self.device = device.name
        self.device_description = device.describe()
        self._dtype = options.torch_dtype
        self.options = options
        self._context = ContextMaker(
            model,
            processor,
            device.torch_device,
            self._dtype,
            views=options.views,
            cache=options.view_cache,
        )
        self._model: XVLA | None = model
        self.processor = processor
        self._domain = domain
        self.target = device
        self._hash = model_hash
        self._thread: int | None = None
        self._stages: Stages = untimed

    @property
    def model(self) -> XVLA:
        """The network."""
        if self._model is None:
            raise RuntimeError("the policy is closed")
        return self._model

    def time_stages(self, stages: Stages) -> None:
        """Enters every stage of the predictions to come with `stages`."""
        self._stages = self._context.stages = stages

    @property
    def model_hash(self) -> str:
        """SHA-256 of the weights; waits for it if it is still being computed."""
        return self._hash.result()

    def predict(self, inputs: PolicyInput) -> Prediction:
        """The chunk for one observation.

        Raises:
            PredictionError: the network's numbers are not finite or determine no rotation.
            ValueError: no image, too many or wrong ones, or a pose that is not finite.
        """
        start = time.perf_counter()
        raw = self._run(inputs, self.time_grid)
        if not np.isfinite(raw).all():
            step, channel = np.argwhere(~np.isfinite(raw))[0]
            raise PredictionError(
                f"the network's output is not finite (step {step}, number {channel}); "
                f"check the checkpoint and dtype {self._dtype} on {self.device}"
            )
        try:
            with self._stages(POST):
                positions, rotations, gripper = self._domain.decode_actions(raw)
        except ee6d.DegenerateRotation as error:
            raise PredictionError(f"the network's output is no chunk of poses: {error}") from error
        proprio = ee6d.pack(inputs.pose.position, inputs.pose.rotation, 0.0)
        seconds = time.perf_counter() - start
        return Prediction(positions, rotations, gripper, proprio, seconds, raw)

    def warm_up(self) -> float:
        """Runs the network once on blank images; seconds it took."""
        start = time.perf_counter()
        self._run(self._blank(), self.time_grid)
        return time.perf_counter() - start

    def choose_threads(self) -> dict[int, float]:
        """Takes the fewest CPU threads that are about as fast as torch's own choice or faster.

        To be called by the thread that predicts, after `warm_up`.

        Returns:
            Seconds of one denoising step by number of threads; empty on an accelerator.
        """
        if self.target.kind != "cpu":
            return {}
        blank = self._blank()
        seconds = times_by_threads(
            _MOST_THREADS,
            torch.set_num_threads,
            lambda: self._run(blank, (1.0,)),
            time.perf_counter,
        )
        torch.set_num_threads(fewest_threads(seconds))
        return seconds

    def _blank(self) -> PolicyInput:
        size = self.processor.image_size
        image = np.zeros((size, size, 3), np.uint8)
        return PolicyInput((image,) * self.num_views, Pose.identity(), "", 0)

    def close(self) -> None:
        """Drops the network; a further prediction is an error."""
        self._model = None
        self._context.close()
        self.target.empty_cache()

    @torch.inference_mode()
    def features(self, inputs: PolicyInput) -> NDArray[np.float32]:
        """What the denoising steps are conditioned on: (tokens, channels).

        The text encoder's output comes first, then the image features of the other views.

        Raises:
            ValueError: as `predict`.
        """
        self._activate()
        context = self._context(inputs.images, inputs.instruction)
        tokens = torch.cat([context.encoded[0], context.auxiliary[0]])
        return np.asarray(tokens.float().cpu().numpy())

    def numbers(self, inputs: PolicyInput) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Proprio (P,) and initial noise (H, A), as the network is given them."""
        config = self.model.config
        proprio = np.zeros(config.dim_proprio, np.float32)
        proprio[: ee6d.DIM] = self._domain.encode_proprio(inputs.pose)
        noise = np.random.default_rng(inputs.seed).standard_normal(
            (config.num_actions, config.dim_action), np.float32
        )
        return proprio, noise

    @torch.inference_mode()
    def _run(self, inputs: PolicyInput, time_grid: Sequence[float]) -> Array:
        """The network's chunk (H, 20) in the numbers of the checkpoint."""
        model = self.model
        if not inputs.pose.is_finite():
            raise ValueError("the end-effector pose is not finite")
        self._activate()
        context = self._context(inputs.images, inputs.instruction)
        proprio, noise = self.numbers(inputs)
        with self._stages(DENOISING):
            actions = model.generate_actions(
                context,
                self._batch(proprio),
                self._batch(np.array(self.domain_id, np.int64)),
                self._batch(noise),
                time_grid,
                None if inputs.prefix is None else self._guide(inputs.prefix, noise.shape),
            )
            return np.asarray(actions[0].float().cpu().numpy(), dtype=np.float64)

    def _guide(self, prefix: Prefix, shape: tuple[int, ...]) -> Guide:
        """The prefix in the checkpoint's numbers; its gripper channels are never imposed."""
        target, weight = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        steps = len(prefix.weights)
        target[:steps, : ee6d.DIM] = self._domain.encode_actions(
            prefix.positions, prefix.rotations, prefix.gripper
        )
        weight[:steps, : ee6d.GRIPPER] = prefix.weights[:, None]
        return Guide(self._batch(target), self._batch(weight))

    def _batch(self, array: NDArray[np.generic]) -> torch.Tensor:
        """An array as a batch of one on the device."""
        return torch.as_tensor(array[None], device=self.target.torch_device)

    def _activate(self) -> None:
        """Chooses the device in a thread that has not done so yet."""
        if self._thread != threading.get_ident():
            self.target.activate()
            self._thread = threading.get_ident()


def load_policy(
    folder: str | Path,
    *,
    device: str = "auto",
    domain_id: int | None = None,
    steps: int | Sequence[float] = DEFAULT_STEPS,
    dtype: str = "float32",
    threads: int | None = None,
    views: int = VIEWS,
    quantize: str = "none",
    images: str = EXACT,
    view_cache: bool = True,
    overrides: Overrides | None = None,
    sha256: str = "",
) -> LocalPolicy:
    """The policy of a model folder.

    Args:
        folder: config.json, safetensors, preprocessor_config.json, tokenizer.json and, where the
            published conventions do not hold, domains.json.
        device: `npu[:i] | cuda[:i] | cpu | auto`.
        domain_id: the embodiment; None is Bridge, the WidowX.
        steps: number of denoising steps, or their descending times in (0, 1].
        dtype: one of `options.DTYPES`.
        threads: CPU threads of torch in this process; None leaves them as they are.
        views: view slots that the network is given.
        quantize: one of `options.QUANTIZATIONS`.
        images: one of `options.IMAGES`.
        view_cache: keeps the features of an image until its view has another.
        overrides: conventions that the user states against the folder.
        sha256: what the hash of the weights must be, as `weights_hash.check_hash` takes it.

    Raises:
        CheckpointError: a file of the folder is missing or wrong, or they do not fit together.
        DeviceError: the device cannot be used.
        ValueError: an option is out of its range.
    """
    folder = Path(folder)
    options = RunOptions(parse_steps(steps), dtype, quantize, images, views, view_cache)
    conventions = read_conventions(folder, domain_id, overrides, views)
    config = conventions.config
    processor = Processor.from_folder(folder, config.text_length)
    check_fit(folder, config, processor, views)
    if options.images == FAST:
        processor = processor.hurried()
    if threads is not None:
        torch.set_num_threads(threads)
    target = resolve_device(device)
    target.activate()
    if target.kind != "cpu" and options.quantize != "none":
        raise ValueError(f"quantize: {options.quantize} works on the CPU only, not on {device}")
    known = _checked_hash(folder, sha256) if sha256 else ""
    model = _network(folder, config, options, target)
    # Hashing gigabytes takes a processor for seconds, which the warm-up need not wait for.
    pool = ThreadPoolExecutor(1, "weights-hash")
    digest = pool.submit(lambda: known or weights_hash(folder))
    pool.shutdown(wait=False)
    return LocalPolicy(model, processor, conventions, target, options, digest)


def _checked_hash(folder: Path, expected: str) -> str:
    """The hash of the weights; raises CheckpointError if it is another than the expected one."""
    found = hash_weights(folder)
    check_hash(folder, found, expected)
    return found.whole


def _network(folder: Path, config: XVLAConfig, options: RunOptions, target: Device) -> XVLA:
    """The network of a folder, ready to run on its device."""
    formats = number_formats(options.torch_dtype)
    if target.kind != "cpu":
        return load_checkpoint(folder, target.torch_device, formats, config)
    int8 = options.quantize == "int8"
    early = partial(forms, dtype=options.torch_dtype, int8=int8)
    model = load_checkpoint(folder, "cpu", formats, config, early)
    prepare(model, int8=int8)
    return model
