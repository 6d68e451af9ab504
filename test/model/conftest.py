"""Small networks with random weights, and other people's code to compare them with."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import json
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
    trainers,
)
from torch import Tensor, nn

from xvla_ros.model.config import TextConfig, VisionConfig, XVLAConfig
from xvla_ros.model.xvla import XVLA

TEXT = TextConfig(
    vocab_size=300,
    d_model=48,
    encoder_layers=2,
    encoder_attention_heads=4,
    encoder_ffn_dim=96,
    max_position_embeddings=200,
)
# Windows of five do not divide the grids of a 93 pixel image: 23, 12 and 6 tokens a side.
THREE_STAGES = VisionConfig(
    dim_embed=(16, 32, 64),
    depths=(1, 2, 1),
    num_heads=(2, 4, 8),
    num_groups=(4, 2, 8),
    patch_size=(7, 3, 3),
    patch_stride=(4, 2, 2),
    patch_padding=(3, 1, 1),
    patch_prenorm=(False, True, True),
    window_size=5,
    max_pos_embeddings=9,
    max_temporal_embeddings=4,
)
FOUR_STAGES = VisionConfig(
    dim_embed=(8, 16, 32, 48),
    depths=(1, 1, 1, 1),
    num_heads=(2, 4, 4, 6),
    num_groups=(2, 4, 4, 6),
    window_size=12,
)


def sizes(vision: VisionConfig = THREE_STAGES, **fields: Any) -> XVLAConfig:
    given: dict[str, Any] = {
        "hidden_size": 64,
        "depth": 2,
        "num_heads": 4,
        "mlp_ratio": 2.0,
        "num_domains": 5,
        "len_soft_prompts": 8,
        "projection_dim": 48,
        "text": TEXT,
        "vision": vision,
    }
    return XVLAConfig(**(given | fields))


def randomise(model: nn.Module, seed: int = 0) -> None:
    """Random numbers everywhere, so that no bias, norm or table is neutral by chance.

    Their scales keep the signal near one, so that every part of the network matters.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(generator=generator)
            if parameter.ndim == 1:
                parameter.mul_(0.2)
                if "norm" in name and name.endswith("weight"):
                    parameter.add_(1.0)
            elif "emb" in name or "shared" in name or "prompt" in name or "bias" in name:
                parameter.mul_(0.7)
            elif name.endswith("coder.fc.weight") or "proj.fc" in name:
                parameter.mul_(0.12)  # one matrix for each domain
            else:
                parameter.mul_(parameter[0].numel() ** -0.5)


def network(config: XVLAConfig, seed: int = 0) -> XVLA:
    model = XVLA(config).eval()
    randomise(model, seed)
    return model


@dataclass(frozen=True)
class Batch:
    """Two samples with different views and domains."""

    ids: Tensor
    images: Tensor
    mask: Tensor
    proprio: Tensor
    domain: Tensor
    noise: Tensor


def batch(config: XVLAConfig, side: int = 93, seed: int = 1) -> Batch:
    g = torch.Generator().manual_seed(seed)
    return Batch(
        ids=torch.randint(0, config.text.vocab_size, (2, 50), generator=g),
        images=torch.randn(2, 3, 3, side, side, generator=g),
        mask=torch.tensor([[True, True, False], [True, False, True]]),
        proprio=torch.randn(2, config.dim_proprio, generator=g),
        domain=torch.tensor([0, 3]),
        noise=torch.randn(2, config.num_actions, config.dim_action, generator=g),
    )


def tiny_tokenizer() -> Tokenizer:
    """A byte-level BPE of the kind BART has, with few merges."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=290,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["pick up the red cube", "put the spoon on the towel"], trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


@dataclass(frozen=True)
class Make:
    """The functions of this file, for tests in other files."""

    sizes: Callable[..., XVLAConfig] = sizes
    randomise: Callable[..., None] = randomise
    network: Callable[..., XVLA] = network
    batch: Callable[..., Batch] = batch
    tokenizer: Callable[[], Tokenizer] = tiny_tokenizer
    three_stages: VisionConfig = THREE_STAGES
    four_stages: VisionConfig = FOUR_STAGES


@pytest.fixture(scope="session")
def make() -> Make:
    return Make()


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Networks this small are slower on more threads."""
    torch.set_num_threads(1)


@dataclass(frozen=True)
class LeRobot:
    """LeRobot's X-VLA (github.com/huggingface/lerobot), without the rest of LeRobot."""

    action_hub: types.ModuleType
    soft_transformer: types.ModuleType
    florence_config: types.ModuleType
    model_class: type[nn.Module]

    def model(self, config: XVLAConfig) -> nn.Module:
        """Their network of the same sizes, in evaluation mode."""
        content = config.to_dict()
        content["florence_config"]["text_config"] |= {
            "decoder_layers": 1,
            "decoder_attention_heads": 4,
            "decoder_ffn_dim": 8,
            "num_hidden_layers": config.text.encoder_layers,
        }
        florence = self.florence_config.Florence2Config(**content["florence_config"])
        florence._attn_implementation_internal = "eager"
        settings = types.SimpleNamespace(
            **content,
            chunk_size=config.num_actions,
            dtype="float32",
            use_proprio=True,
            action_feature=None,
            freeze_vision_encoder=False,
            freeze_language_encoder=False,
            train_policy_transformer=True,
            train_soft_prompts=True,
        )
        return self.model_class(settings, florence, config.dim_proprio).eval()


@pytest.fixture(scope="session")
def lerobot() -> LeRobot:
    """Reads the modules of the installed wheel one by one: its dependencies are not needed."""
    try:
        found = importlib.metadata.distribution("lerobot")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("needs LeRobot: pip install --no-deps lerobot==0.4.4")
    folder = Path(str(found.locate_file("lerobot/policies/xvla")))
    package = types.ModuleType("lerobot_xvla")
    package.__path__ = [str(folder)]
    sys.modules["lerobot_xvla"] = package
    names = ("action_hub", "soft_transformer", "configuration_florence2", "modeling_florence2")
    hub, soft, config, florence = (importlib.import_module(f"lerobot_xvla.{n}") for n in names)
    # The file of the model class imports all of LeRobot, the class itself needs none of it.
    tree = ast.parse((folder / "modeling_xvla.py").read_text())
    tree.body = [
        node
        for node in tree.body
        if (isinstance(node, ast.ImportFrom) and node.module == "__future__")
        or (isinstance(node, ast.ClassDef) and node.name == "XVLAModel")
    ]
    space = {
        "torch": torch,
        "nn": nn,
        "build_action_space": hub.build_action_space,
        "SoftPromptedTransformer": soft.SoftPromptedTransformer,
        "Florence2ForConditionalGeneration": florence.Florence2ForConditionalGeneration,
    }
    exec(compile(tree, "modeling_xvla.py", "exec"), space)
    return LeRobot(hub, soft, config, space["XVLAModel"])


@pytest.fixture
def write_json() -> Callable[[Path, Any], None]:
    def write(path: Path, content: Any) -> None:
        path.write_text(json.dumps(content))

    return write
