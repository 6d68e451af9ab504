"""Both layouts of config.json are read, and a wrong value is named."""

from __future__ import annotations

import json

import pytest

from xvla_ros.model.config import XVLAConfig
from xvla_ros.model.errors import ConfigError

# The part of the published WidowX configuration that the network depends on.
WIDOWX = {
    "model_type": "xvla",
    "hidden_size": 1024,
    "depth": 24,
    "num_heads": 16,
    "num_actions": 30,
    "action_mode": "ee6d",
    "soft_prompt_length": 32,
    "florence_config": {
        "model_type": "florence2",
        "projection_dim": 1024,
        "text_config": {"vocab_size": 51289, "d_model": 1024, "max_position_embeddings": 4096},
        "vision_config": {
            "patch_stride": [4, 2, 2, 2],
            "dim_embed": [256, 512, 1024, 2048],
            "image_pos_embed": {"type": "learned_abs_2d", "max_pos_embeddings": 50},
        },
    },
}


def changed(section: str, **values):
    content = json.loads(json.dumps(WIDOWX))
    target = content
    for key in section.split(".") if section else ():
        target = target[key]
    target.update(values)
    return content


def test_a_published_configuration_is_the_default() -> None:
    assert XVLAConfig.from_dict(WIDOWX) == XVLAConfig()


def test_a_224_pixel_image_becomes_a_grid_of_7() -> None:
    assert XVLAConfig().vision.grid(224) == 7


def test_a_written_configuration_reads_back_the_same(make, tmp_path) -> None:
    config = make.sizes(action_mode="auto", real_action_dim=7, dim_proprio=9)
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))

    assert XVLAConfig.from_folder(tmp_path) == config


def test_lerobots_names_of_the_same_sizes() -> None:
    content = {key: value for key, value in WIDOWX.items() if key != "model_type"}
    config = XVLAConfig.from_dict(
        content
        | {
            "type": "xvla",
            "chunk_size": 24,
            "max_state_dim": 28,
            "tokenizer_max_length": 50,
            "action_mode": "auto",
            "max_action_dim": 22,
            "output_features": {"action": {"type": "ACTION", "shape": [8]}},
        }
    )

    assert (config.num_actions, config.dim_proprio, config.text_length) == (24, 28, 50)
    assert (config.dim_action, config.action_space.used) == (22, 8)


def test_lerobots_own_defaults_hold_for_its_files() -> None:
    config = XVLAConfig.from_dict({"type": "xvla", "florence_config": {}})

    assert (config.num_actions, config.dim_proprio, config.text_length) == (32, 32, 64)


def test_a_joint_network_reads_as_many_joints_as_it_writes() -> None:
    config = XVLAConfig.from_dict(changed("", action_mode="joint"))

    assert (config.dim_action, config.dim_proprio) == (14, 14)


@pytest.mark.parametrize(
    ("section", "values", "words"),
    [
        ("", {"model_type": "pi0"}, ("'pi0'", "'xvla'")),
        ("", {"hidden_size": "big"}, ("hidden_size", "'big'")),
        ("", {"depth": -1}, ("depth", "-1")),
        ("", {"depth": True}, ("depth", "True")),
        ("", {"num_domains": 0}, ("num_domains", "0")),
        ("florence_config.vision_config", {"window_size": 0}, ("window_size", "0")),
        ("", {"num_heads": 7}, ("hidden_size = 1024", "num_heads = 7")),
        ("", {"action_mode": "ee6"}, ("action_mode", "'ee6'", "ee6d")),
        ("", {"florence_config": [1]}, ("florence_config", "object")),
        ("florence_config", {"projection_dim": 512}, ("projection_dim = 512", "1024")),
        ("florence_config.vision_config", {"dim_embed": [8, 16]}, ("entries for 2 stages",)),
        ("florence_config.vision_config", {"depths": 3}, ("vision_config.depths", "list")),
        ("florence_config.vision_config", {"num_groups": [8, 16, 32, 3]}, ("num_groups = 3",)),
        (
            "florence_config.vision_config",
            {"image_feature_source": ["last_frame"]},
            ("image_feature_source", "last_frame"),
        ),
    ],
)
def test_a_wrong_value_is_named(tmp_path, section, values, words) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(changed(section, **values)))

    with pytest.raises(ConfigError) as caught:
        XVLAConfig.from_folder(tmp_path)
    assert str(path) in str(caught.value)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_file_that_is_no_json_object_is_named(tmp_path, text) -> None:
    (tmp_path / "config.json").write_text(text)

    with pytest.raises(ConfigError, match=r"config\.json"):
        XVLAConfig.from_folder(tmp_path)


def test_a_vision_tower_that_says_only_its_widths_is_that_of_florence_2_large() -> None:
    content = json.loads(json.dumps(WIDOWX))
    content["florence_config"]["vision_config"] = {"dim_embed": [256, 512, 1024, 2048]}

    assert XVLAConfig.from_dict(content) == XVLAConfig()


def test_other_widths_without_the_rest_are_named() -> None:
    content = json.loads(json.dumps(WIDOWX))
    content["florence_config"]["vision_config"] = {"dim_embed": [96, 192, 384]}

    with pytest.raises(ConfigError, match="depths has 4 entries for 3 stages"):
        XVLAConfig.from_dict(content)
