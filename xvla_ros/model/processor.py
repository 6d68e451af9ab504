"""From camera images and an instruction to what the network reads.

The transform is the one of the training (X-VLA, models/processing_xvla.py and
datasets/dataset.py, github.com/2toinf/X-VLA): Pillow's antialiased bicubic squash on bytes, then
ImageNet statistics; byte-level BPE with `<s>` and `</s>`, padded to a fixed length.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from tokenizers import Tokenizer

from xvla_ros.model.config import CONFIG_FILE, TEXT_LENGTH, VIEWS
from xvla_ros.model.errors import CheckpointError

PREPROCESSOR_FILE = "preprocessor_config.json"
TOKENIZER_FILE = "tokenizer.json"
BOS, PAD, EOS = 0, 1, 2

_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)
_SIZE = 224


class ProcessorError(CheckpointError):
    """A preprocessor configuration or tokenizer that cannot be used."""


@dataclass(frozen=True)
class ImageTransform:
    """Squash to a square of `size` pixels, scale to [0, 1], normalise by channel."""

    size: int = _SIZE
    mean: tuple[float, ...] = _MEAN
    std: tuple[float, ...] = _STD
    rescale: float = 1.0 / 255.0
    resample: int = int(Image.Resampling.BICUBIC)
    fast: bool = False
    """Bicubic by torch, which is vectorised, in place of Pillow; a few numbers are a level off."""

    def squash(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """A uint8 RGB image (H, W, 3) of any size to (size, size, 3), not yet normalised."""
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
            found = f"{image.dtype} {image.shape}"
            raise ValueError(f"expected a uint8 RGB image (H, W, 3), not {found}")
        side = (self.size, self.size)
        if self.fast and self.resample == Image.Resampling.BICUBIC:
            return _squash_fast(image, side)
        picture = Image.fromarray(np.ascontiguousarray(image))
        return np.asarray(picture.resize(side, Image.Resampling(self.resample)))

    def __call__(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """A uint8 RGB image (H, W, 3) of any size to (3, size, size)."""
        normalised = cv2.LUT(np.ascontiguousarray(self.squash(image)), self._levels)
        return np.ascontiguousarray(normalised.transpose(2, 0, 1), np.float32)

    @cached_property
    def _levels(self) -> NDArray[np.float32]:
        """What each level of each channel becomes (1, 256, 3)."""
        # The product is made in double precision and rounded once, as in training.
        scaled = (np.arange(256)[:, None] * self.rescale).astype(np.float32)
        mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        levels: NDArray[np.float32] = (scaled - mean) / std
        return levels[None]

    def to_dict(self) -> dict[str, Any]:
        """The content of a `preprocessor_config.json`."""
        return {
            "image_processor_type": "CLIPImageProcessor",
            "do_resize": True,
            "size": {"height": self.size, "width": self.size},
            "resample": self.resample,
            "do_center_crop": False,
            "do_rescale": True,
            "rescale_factor": self.rescale,
            "do_normalize": True,
            "image_mean": list(self.mean),
            "image_std": list(self.std),
        }

    @staticmethod
    def from_dict(content: dict[str, Any]) -> ImageTransform:
        """The transform of a parsed `preprocessor_config.json`.

        Raises:
            ProcessorError: it asks for something that this transform does not do.
        """
        for key, needed in (
            ("do_resize", True),
            ("do_center_crop", False),
            ("do_rescale", True),
            ("do_normalize", True),
        ):
            if content.get(key, needed) is not needed:
                raise ProcessorError(f"{key} is {content[key]!r}; only {needed} is supported")
        statistics = {}
        for key, default in (("image_mean", _MEAN), ("image_std", _STD)):
            values = content.get(key, default)
            listed = isinstance(values, (list, tuple)) and len(values) == 3
            if not listed or not all(isinstance(v, (int, float)) for v in values):
                raise ProcessorError(f"{key} must be three numbers, not {values!r}")
            statistics[key] = tuple(float(v) for v in values)
        resample = content.get("resample", int(Image.Resampling.BICUBIC))
        if resample not in list(Image.Resampling):
            raise ProcessorError(f"resample must be one of Pillow's 0 to 5, not {resample!r}")
        return ImageTransform(
            size=_square(content.get("size", _SIZE)),
            mean=statistics["image_mean"],
            std=statistics["image_std"],
            rescale=float(content.get("rescale_factor", 1.0 / 255.0)),
            resample=int(resample),
        )


def _squash_fast(image: NDArray[np.uint8], side: tuple[int, int]) -> NDArray[np.uint8]:
    """Antialiased bicubic on bytes, as Pillow's but for the rounding between its two passes."""
    import torch

    # torch warns of memory that it may not write to.
    pixels = torch.from_numpy(np.require(image, requirements=("C", "W")))[None]
    squashed = torch.nn.functional.interpolate(
        pixels.permute(0, 3, 1, 2), side, mode="bicubic", antialias=True, align_corners=False
    )
    return np.asarray(squashed[0].permute(1, 2, 0).numpy())


def _square(size: Any) -> int:
    sides = (size.get("height"), size.get("width")) if isinstance(size, dict) else (size, size)
    if sides[0] != sides[1] or not isinstance(sides[0], int) or sides[0] <= 0:
        raise ProcessorError(f"size must be a square {{height, width}} in pixels, not {size!r}")
    return sides[0]


class Processor:
    """Images and instructions of one model folder."""

    def __init__(
        self, transform: ImageTransform, tokenizer: Tokenizer, text_length: int = TEXT_LENGTH
    ) -> None:
        self.transform = transform
        self.text_length = text_length
        self.vocab_size = tokenizer.get_vocab_size()
        self._tokenizer = tokenizer
        self._tokenizer.enable_truncation(text_length)

    @staticmethod
    def from_folder(folder: str | Path, text_length: int = TEXT_LENGTH) -> Processor:
        """Reads preprocessor_config.json and tokenizer.json of a model folder.

        Raises:
            ProcessorError: a file is missing or wrong; the message says which and what to do.
        """
        folder = Path(folder)
        return Processor(_read_transform(folder), _read_tokenizer(folder), text_length)

    def hurried(self) -> Processor:
        """The same with the fast images of `ImageTransform.fast`."""
        return Processor(replace(self.transform, fast=True), self._tokenizer, self.text_length)

    @property
    def image_size(self) -> int:
        """Side of the network's images in pixels."""
        return self.transform.size

    def images(
        self, views: Sequence[NDArray[np.uint8] | None], slots: int = VIEWS
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Network images (slots, 3, S, S) and their mask (slots,).

        Args:
            views: uint8 RGB (H, W, 3) by slot, the main view first; None for an absent one.
            slots: how many the network is given. The published checkpoints expect three.
        """
        if len(views) > slots:
            raise ValueError(f"{len(views)} views for {slots} slots")
        pixels = np.zeros((slots, 3, self.image_size, self.image_size), np.float32)
        mask = np.zeros(slots, np.bool_)
        for slot, view in enumerate(views):
            if view is not None:
                pixels[slot] = self.transform(view)
                mask[slot] = True
        return pixels, mask

    def text(self, instruction: str) -> NDArray[np.int64]:
        """Ids (text_length,) of an instruction as it stands: no template, no lower-casing."""
        ids = self._tokenizer.encode(instruction).ids
        out = np.full(self.text_length, PAD, np.int64)
        out[: len(ids)] = ids
        return out


def write_preprocessor_config(folder: str | Path, transform: ImageTransform) -> None:
    """Writes `preprocessor_config.json`."""
    text = json.dumps(transform.to_dict(), indent=2) + "\n"
    (Path(folder) / PREPROCESSOR_FILE).write_text(text, encoding="utf-8")


def _read_transform(folder: Path) -> ImageTransform:
    path = folder / PREPROCESSOR_FILE
    if not path.is_file() and _is_lerobot(folder):
        # LeRobot folders do not say; their checkpoints are conversions of the published ones.
        return ImageTransform()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ProcessorError("expected a JSON object")
        return ImageTransform.from_dict(content)
    except FileNotFoundError:
        raise ProcessorError(f"{path}: no such file; it says the image size") from None
    except ProcessorError as error:
        raise ProcessorError(f"{path}: {error}") from None
    except (OSError, ValueError, TypeError) as error:
        raise ProcessorError(f"{path}: cannot be used: {error}") from error


def _is_lerobot(folder: Path) -> bool:
    try:
        return "type" in json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def _read_tokenizer(folder: Path) -> Tokenizer:
    path = folder / TOKENIZER_FILE
    if not path.is_file():
        raise ProcessorError(
            f"{path}: no such file; put the checkpoint's tokenizer.json there "
            "(the published checkpoints share that of huggingface.co/facebook/bart-large)"
        )
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise ProcessorError(f"{path}: not a tokenizer: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids = tokenizer.encode("").ids
    if ids != [BOS, EOS] or tokenizer.token_to_id("<pad>") != PAD:
        raise ProcessorError(
            f"{path}: expected BART's <s> = {BOS}, <pad> = {PAD}, </s> = {EOS} around the text; "
            f"an empty text gives {ids}, <pad> is {tokenizer.token_to_id('<pad>')}"
        )
    return tokenizer
