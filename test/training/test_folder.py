"""The files around the weights."""

import json

import numpy as np
import torch

from xvla_ros.model.config import XVLAConfig
from xvla_ros.model.domain import BRIDGE, find_domain
from xvla_ros.model.processor import Processor
from xvla_ros.model.xvla import XVLA
from xvla_ros.training.pipeline import prepare_folder
from xvla_ros.training.recipe import INSTRUCTIONS, Recipe

LIMIT_BYTES = 10_000_000


def test_the_shipped_size_fits_the_repository(tmp_path):
    prepare_folder(tmp_path, Recipe())
    with torch.device("meta"):
        network = XVLA(XVLAConfig.from_folder(tmp_path))
    weights = sum(4 * tensor.numel() for tensor in network.state_dict().values())
    files = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert weights + files < LIMIT_BYTES


def test_conventions_are_those_of_the_widowx_checkpoint(folder):
    domain = find_domain(folder, 0)
    assert domain == BRIDGE
    assert json.loads((folder / "domains.json").read_text())["domains"][0]["name"] == "Bridge"
    config = XVLAConfig.from_folder(folder)
    assert (config.num_actions, config.dim_action, config.dim_proprio) == (30, 20, 20)


def test_special_tokens_are_barts(folder):
    ids = Processor.from_folder(folder).text("pick up the red cube")
    assert ids.shape == (50,)
    assert ids[0] == 0
    end = int(np.flatnonzero(ids == 2)[0])
    assert (ids[end + 1 :] == 1).all()
    assert (ids[1:end] > 4).all()


def test_every_instruction_has_ids_of_its_own(folder):
    processor = Processor.from_folder(folder)
    sentences = [sentence for group in INSTRUCTIONS.values() for sentence in group]
    assert len({tuple(processor.text(sentence)) for sentence in sentences}) == len(sentences)


def test_words_never_seen_are_spelt_out_not_dropped(folder):
    processor = Processor.from_folder(folder)
    unknown = 3
    for text in ("stack the yellow zebra", "Öffne die Tür", "拿起红色方块"):
        ids = processor.text(text)
        assert unknown not in ids
    assert not np.array_equal(processor.text("ab zq"), processor.text("ab zk"))
