"""What the denoising steps share, from images and an instruction, computed once for each image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xvla_ros.model.processor import Processor
from xvla_ros.model.xvla import XVLA, Context
from xvla_ros.runtime.stages import PREPARATION, TEXT, VISION, Stages, untimed

Picture = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class _Seen:
    """The last image of a view, and what the vision tower made of it."""

    picture: Picture
    features: Tensor
    """(tokens, projection_dim)."""

    def shows(self, picture: Picture) -> bool:
        return np.array_equal(self.picture, picture)


class ContextMaker:
    """Images and instruction to `Context`.

    A view's features are kept until the view shows another image, and the whole context until
    anything is different. Images are compared by their pixels, so that no stamp has to be
    trusted and a buffer may be written again.
    """

    def __init__(
        self,
        model: XVLA,
        processor: Processor,
        device: torch.device,
        dtype: torch.dtype,
        *,
        views: int,
        cache: bool,
    ) -> None:
        self.stages: Stages = untimed
        self._model = model
        self._processor = processor
        self._device = device
        self._dtype = dtype
        self._views = views
        self._cache = cache
        self._seen: list[_Seen | None] = [None] * views
        self._last: tuple[str, Context] | None = None

    def __call__(self, pictures: Sequence[Picture | None], instruction: str) -> Context:
        """The context (batch of one) of uint8 RGB images by view slot; None for an absent view.

        Raises:
            ValueError: no image, more than there are slots, or one of another kind.
        """
        slots = self._slots(pictures)
        fresh = [slot for slot, picture in slots.items() if not self._known(slot, picture)]
        same = not fresh and set(slots) == self._present()
        if same and self._last is not None and self._last[0] == instruction:
            return self._last[1]
        self._forget(set(slots))
        for slot, features in zip(fresh, self._look([slots[s] for s in fresh]), strict=True):
            self._seen[slot] = _Seen(slots[slot].copy(), features)
        with self.stages(TEXT):
            context = self._model.encode_features(self._ids(instruction), self._features())
        if self._cache:
            self._last = instruction, context
        else:
            self._forget(set())
        return context

    def close(self) -> None:
        """Drops the network and what is kept; nothing may be asked afterwards."""
        self._forget(set())
        del self._model

    def _slots(self, pictures: Sequence[Picture | None]) -> dict[int, Picture]:
        if len(pictures) > self._views:
            raise ValueError(f"{len(pictures)} views for {self._views} slots")
        slots = {slot: p for slot, p in enumerate(pictures) if p is not None}
        if not slots:
            raise ValueError("no image was given")
        return slots

    def _known(self, slot: int, picture: Picture) -> bool:
        seen = self._seen[slot]
        return seen is not None and seen.shows(picture)

    def _present(self) -> set[int]:
        return {slot for slot, seen in enumerate(self._seen) if seen is not None}

    def _forget(self, keep: set[int]) -> None:
        """Drops the whole context, and the views that are not to be kept."""
        self._last = None
        self._seen = [seen if slot in keep else None for slot, seen in enumerate(self._seen)]

    def _look(self, pictures: list[Picture]) -> Sequence[Tensor]:
        """Image features by picture, all pictures in one batch."""
        if not pictures:
            return ()
        with self.stages(PREPARATION):
            pixels = np.stack([self._processor.transform(picture) for picture in pictures])
            images = torch.as_tensor(pixels, device=self._device).to(self._dtype)
        with self.stages(VISION):
            return tuple(self._model.vlm.image_features(images))

    def _features(self) -> Tensor:
        """(1, views, tokens, projection_dim); an absent view is zero, which no black image is."""
        some = next(seen.features for seen in self._seen if seen is not None)
        zero = torch.zeros_like(some)
        return torch.stack([zero if s is None else s.features for s in self._seen])[None]

    def _ids(self, instruction: str) -> Tensor:
        return torch.as_tensor(self._processor.text(instruction)[None], device=self._device)
