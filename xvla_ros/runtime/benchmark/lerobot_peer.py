"""LeRobot's X-VLA (github.com/huggingface/lerobot) as a peer: other code, the same weights.

Only the five modules of its network are read from the installed wheel, one by one: none of
LeRobot's many dependencies is needed but transformers.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import sys
import types
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from xvla_ros.errors import UsageError
from xvla_ros.model.config import XVLAConfig
from xvla_ros.model.xvla import XVLA

VERSION = "0.4.4"
INSTALL = f"pip install 'xvla-ros[bench]' && pip install --no-deps lerobot=={VERSION}"
_PACKAGE = "lerobot_xvla"
_MODULES = ("action_hub", "soft_transformer", "configuration_florence2", "modeling_florence2")


@dataclass(frozen=True)
class LeRobot:
    """Parts of LeRobot's X-VLA."""

    action_hub: types.ModuleType
    soft_transformer: types.ModuleType
    florence_config: types.ModuleType
    model_class: type[nn.Module]
    version: str

    @staticmethod
    def load() -> LeRobot:
        """Reads the installed wheel.

        Raises:
            ImportError: a library of the extra [bench] is missing.
            UsageError: LeRobot is, or is of a version without these modules.
        """
        # Missing ones are named before anything else is read.
        import einops  # noqa: F401
        import transformers  # noqa: F401

        try:
            found = importlib.metadata.distribution("lerobot")
        except importlib.metadata.PackageNotFoundError:
            raise UsageError(f"LeRobot is not installed: {INSTALL}") from None
        folder = Path(str(found.locate_file("lerobot/policies/xvla")))
        source = folder / "modeling_xvla.py"
        if not source.is_file():
            raise UsageError(f"LeRobot {found.version} has no X-VLA here: {INSTALL}")
        package = types.ModuleType(_PACKAGE)
        package.__path__ = [str(folder)]
        sys.modules[_PACKAGE] = package
        hub, soft, config, florence = (importlib.import_module(f"{_PACKAGE}.{n}") for n in _MODULES)
        # The file of the model class imports all of LeRobot, the class itself needs none of it.
        tree = ast.parse(source.read_text(encoding="utf-8"))
        tree.body = [
            node
            for node in tree.body
            if (isinstance(node, ast.ImportFrom) and node.module == "__future__")
            or (isinstance(node, ast.ClassDef) and node.name == "XVLAModel")
        ]
        space: dict[str, Any] = {
            "torch": torch,
            "nn": nn,
            "build_action_space": hub.build_action_space,
            "SoftPromptedTransformer": soft.SoftPromptedTransformer,
            "Florence2ForConditionalGeneration": florence.Florence2ForConditionalGeneration,
        }
        exec(compile(tree, source.name, "exec"), space)
        return LeRobot(hub, soft, config, space["XVLAModel"], found.version)

    def model(self, config: XVLAConfig, dtype: str = "float32") -> nn.Module:
        """Their network of the same sizes, in evaluation mode, its weights not yet filled."""
        content = config.to_dict()
        # The decoder is built and dropped again; the smallest costs the least.
        content["florence_config"]["text_config"] |= {
            "decoder_layers": 1,
            "decoder_attention_heads": config.text.encoder_attention_heads,
            "decoder_ffn_dim": 8,
            "num_hidden_layers": config.text.encoder_layers,
        }
        florence = self.florence_config.Florence2Config(**content["florence_config"])
        settings = types.SimpleNamespace(
            **content,
            chunk_size=config.num_actions,
            dtype=dtype,
            use_proprio=True,
            action_feature=None,
            freeze_vision_encoder=False,
            freeze_language_encoder=False,
            train_policy_transformer=True,
            train_soft_prompts=True,
        )
        return self.model_class(settings, florence, config.dim_proprio).eval()


@dataclass(frozen=True, eq=False)
class Inputs:
    """What both networks are given: a batch of one."""

    input_ids: Tensor
    """(1, L)."""
    images: Tensor
    """(1, V, 3, S, S), float32."""
    image_mask: Tensor
    """(1, V) bool."""
    proprio: Tensor
    """(1, P), float32."""
    domain_id: Tensor
    """(1,)."""
    noise: Tensor
    """(1, H, A), float32."""


class Peer:
    """LeRobot's network with the weights of one of ours, on the same device."""

    def __init__(self, ours: XVLA, dtype: str = "float32") -> None:
        from transformers.modeling_utils import no_init_weights
        from transformers.utils import logging

        # It advises on text generation, which nobody does here.
        logging.set_verbosity_error()
        lerobot = LeRobot.load()
        self.version = lerobot.version
        self.dtype = dtype
        with no_init_weights(), _unfilled():
            model = lerobot.model(ours.config, dtype)
        number_format = getattr(torch, dtype)
        state = {
            name: tensor.to(number_format) if tensor.is_floating_point() else tensor
            for name, tensor in ours.state_dict().items()
        }
        model.load_state_dict(state, strict=True, assign=True)
        self._model: Any = model

    @torch.inference_mode()
    def features(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Output of the text encoder, and features of the other views."""
        images = inputs.images.to(getattr(torch, self.dtype))
        found = self._model.forward_vlm(inputs.input_ids, images, inputs.image_mask)
        return found["vlm_features"], found["aux_visual_inputs"]

    @torch.inference_mode()
    def actions(self, inputs: Inputs, steps: int, own_noise: bool = True) -> Tensor:
        """A chunk (1, H, A); with the noise of the inputs if `own_noise` is False."""
        i = inputs
        arguments = (i.input_ids, i.images, i.image_mask, i.domain_id, i.proprio, steps)
        if own_noise:
            return torch.as_tensor(self._model.generate_actions(*arguments))
        with _given_noise(i.noise):
            return torch.as_tensor(self._model.generate_actions(*arguments))


class _Instead(TorchFunctionMode):
    """Inside, some functions of torch are answered by `answer`, which gives None for all others.

    Args:
        answer: from a function and its arguments to the result.
    """

    def __init__(self, answer: Callable[[Any, Sequence[Any], dict[str, Any]], Any]) -> None:
        super().__init__()
        self._answer = answer

    def __torch_function__(
        self,
        func: Any,
        types: Collection[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        answer = self._answer(func, args, given)
        return func(*args, **given) if answer is None else answer


def _unfilled() -> _Instead:
    """Modules built inside are not initialised: all of their weights are replaced."""

    def answer(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return None

    return _Instead(answer)


def _given_noise(noise: Tensor) -> _Instead:
    """Their sampler draws its noise itself; inside, it draws this."""

    def answer(func: Any, _args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return noise.to(kwargs["dtype"]) if func is torch.randn else None

    return _Instead(answer)
