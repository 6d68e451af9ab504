"""One observation in, one chunk in the frame of the robot out."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from xvla_ros import ee6d
from xvla_ros.geometry import Pose, so3_exp
from xvla_ros.model.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from xvla_ros.model.conventions import Overrides
from xvla_ros.model.davit import DaViT
from xvla_ros.model.processor import ImageTransform, Processor, write_preprocessor_config
from xvla_ros.model.time_grid import uniform_grid
from xvla_ros.model.xvla import XVLA
from xvla_ros.runtime.device import DeviceError
from xvla_ros.runtime.interface import Prefix
from xvla_ros.runtime.policy import LocalPolicy, PolicyInput, PredictionError, load_policy

# R_ee = R_state @ D of BridgeData.
D = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
POSE = Pose(np.array([0.25, -0.05, 0.12]), so3_exp([0.1, 0.2, 0.3]) @ D)


@pytest.fixture(scope="module")
def made(tmp_path_factory, make):
    """A model folder with random weights whose rotations are near the identity state."""
    return make.folder(tmp_path_factory.mktemp("model"))


@pytest.fixture
def folder(made, tmp_path):
    """A copy to break."""
    for file in made.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def picture(seed: int):
    return np.random.default_rng(seed).integers(0, 256, (60, 80, 3), dtype=np.uint8)


def observation(**fields: Any) -> PolicyInput:
    given: dict[str, Any] = {
        "images": (picture(1), picture(2), None),
        "pose": POSE,
        "instruction": "pick up the red cube",
        "seed": 7,
    }
    return PolicyInput(**(given | fields))


def load(folder, **options: Any) -> LocalPolicy:
    given: dict[str, Any] = {"device": "cpu", "threads": 1}
    return load_policy(folder, **(given | options))


def edit(folder, name, **values) -> None:
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(content | values))


def test_a_policy_says_what_its_chunks_mean(made) -> None:
    policy = load(made)

    assert policy.horizon == 30
    assert policy.step_dt == pytest.approx(1 / 6)
    assert (policy.domain_id, policy.gripper_threshold, policy.open_below) == (0, 0.8, 0.6)
    assert policy.num_views == 3
    assert policy.time_grid == (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
    assert (policy.approximation, policy.device) == ("exact", "cpu")
    assert policy.device_description.startswith("cpu, torch ")
    weights = (made / "model.safetensors").read_bytes()
    assert policy.model_hash == hashlib.sha256(weights).hexdigest()


def test_a_chunk_is_the_networks_answer_in_the_frame_of_the_robot(made) -> None:
    prediction = load(made, steps=2).predict(observation())
    model, processor = load_checkpoint(made), Processor.from_folder(made)
    pixels, mask = processor.images([picture(1), picture(2)])
    state = POSE.rotation @ D.T
    proprio = np.r_[POSE.position, state[:, :2].ravel(), np.zeros(11)]
    noise = np.random.default_rng(7).standard_normal((30, 20), np.float32)
    with torch.inference_mode():
        context = model.encode(
            torch.tensor(processor.text("pick up the red cube"))[None],
            torch.tensor(pixels)[None],
            torch.tensor(mask)[None],
        )
        raw = model.generate_actions(
            context,
            torch.tensor(proprio, dtype=torch.float32)[None],
            torch.tensor([0]),
            torch.tensor(noise)[None],
            uniform_grid(2),
        )[0].double()

    assert np.allclose(prediction.raw, raw, atol=1e-6)
    assert np.array_equal(prediction.positions, prediction.raw[:, :3])
    assert np.array_equal(prediction.gripper, prediction.raw[:, 9])
    for rotation, row in zip(prediction.rotations, prediction.raw, strict=True):
        first = row[[3, 5, 7]] / np.linalg.norm(row[[3, 5, 7]])
        assert np.allclose((rotation @ D.T)[:, 0], first)
        assert np.allclose(rotation @ rotation.T, np.eye(3))
    assert np.array_equal(prediction.proprio, ee6d.pack(POSE.position, POSE.rotation, 0.0))
    assert prediction.seconds > 0.0


def test_the_same_observation_and_seed_give_the_same_chunk(made) -> None:
    policy = load(made)
    first = policy.predict(observation()).raw

    assert np.array_equal(policy.predict(observation()).raw, first)
    assert np.array_equal(load(made).predict(observation()).raw, first)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 8},
        {"instruction": "pick the cube up"},
        {"images": (picture(3), picture(2), None)},
        {"images": (picture(1), None, None)},
        {"images": (picture(1), picture(2), picture(2))},
        {"pose": Pose(np.array([0.3, 0.0, 0.1]), POSE.rotation)},
    ],
    ids=["seed", "instruction", "image", "fewer views", "more views", "pose"],
)
def test_every_part_of_the_observation_matters(made, change) -> None:
    policy = load(made)
    before = policy.predict(observation()).raw

    assert np.abs(policy.predict(observation(**change)).raw - before).max() > 1e-5


def prefix(weights) -> Prefix:
    steps = len(weights)
    turns = np.stack([POSE.rotation @ so3_exp([0.0, 0.0, 0.02 * k]) for k in range(steps)])
    positions = POSE.position + 0.01 * np.arange(steps)[:, None]
    return Prefix(positions, turns, np.zeros(steps), np.asarray(weights, dtype=float))


def test_a_prefix_without_weight_changes_no_bit(made) -> None:
    policy = load(made, steps=4)
    free = policy.predict(observation())
    told = policy.predict(observation(prefix=prefix([0.0] * 6)))

    assert np.array_equal(free.raw, told.raw)


def test_a_prefix_is_imposed_in_the_numbers_of_the_checkpoint(made, monkeypatch) -> None:
    seen = {}

    def spy(predict, noise, grid, guide):
        seen["guide"] = guide
        return predict(noise, grid[0])

    monkeypatch.setattr("xvla_ros.model.xvla.denoise", spy)
    given = prefix([1.0, 0.5, 0.25])
    load(made, steps=4).predict(observation(prefix=given))
    target, weight = seen["guide"].target[0].numpy(), seen["guide"].weight[0].numpy()

    assert target.shape == weight.shape == (30, 20)
    states = given.rotations @ D.T
    assert np.allclose(target[:3, :3], given.positions, atol=1e-6)
    assert np.allclose(target[:3, 3:9], states[:, :, :2].reshape(3, 6), atol=1e-6)
    assert np.array_equal(weight[:3, 0], np.array([1.0, 0.5, 0.25], np.float32))
    assert (weight[:3, :9] == weight[:3, :1]).all()
    assert not weight[:3, 9:].any(), "neither a gripper nor the second arm"
    assert not weight[3:].any()


def test_what_follows_a_prefix_is_another_chunk(made) -> None:
    policy = load(made, steps=4)
    free = policy.predict(observation())
    told = policy.predict(observation(prefix=prefix([1.0] * 6)))

    assert not np.array_equal(free.raw[6:], told.raw[6:])


def test_trailing_absent_views_need_not_be_given(made) -> None:
    policy = load(made)

    short = policy.predict(observation(images=(picture(1), picture(2))))
    assert np.array_equal(short.raw, policy.predict(observation()).raw)


def test_a_grid_of_times_may_be_given(made) -> None:
    ten = load(made).predict(observation()).raw
    same = load(made, steps=[i / 10 for i in range(10, 0, -1)])
    other = load(made, steps=(1.0, 0.4))

    assert np.array_equal(same.predict(observation()).raw, ten)
    assert other.time_grid == (1.0, 0.4)
    assert np.abs(other.predict(observation()).raw - ten).max() > 1e-6


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"dtype": "bfloat16"}, "bfloat16"),
        ({"quantize": "int8"}, "int8"),
        ({"steps": 4}, "4 steps"),
        ({"steps": (1.0, 0.7, 0.4, 0.1)}, "times 1 0.7 0.4 0.1"),
        (
            {"dtype": "bfloat16", "quantize": "int8", "steps": [1.0, 0.2]},
            "bfloat16, int8, times 1 0.2",
        ),
    ],
)
def test_what_is_not_the_published_arithmetic_is_named(made, options, name) -> None:
    exact = load(made).predict(observation()).raw
    policy = load(made, **options)

    assert policy.approximation == name
    error = np.abs(policy.predict(observation()).raw - exact).max()
    # Coarser numbers stay close; another grid is another function of random weights.
    assert 0.0 < error < (10.0 if "steps" in options else 0.1)


def test_fewer_view_slots_are_an_approximation(made) -> None:
    two = load(made, views=2)

    assert two.approximation == "2 view slots"
    assert two.predict(observation(images=(picture(1), picture(2)))).raw.shape == (30, 20)


def test_a_kept_view_changes_no_number(made) -> None:
    """Every observation differs from the one before in what the caches depend on."""
    kept, fresh = load(made, steps=1), load(made, steps=1, view_cache=False)
    again = picture(1)
    for change in (
        {},
        {"seed": 8},
        {"instruction": "put the cube down"},
        {"images": (picture(1), picture(3), None)},
        {"images": (picture(1), None, picture(3))},
        {"images": (picture(3), None, picture(3))},
        {"images": (picture(3), None, None)},
        {"images": (again, picture(2), picture(3))},
    ):
        expected = fresh.predict(observation(**change)).raw
        assert np.abs(kept.predict(observation(**change)).raw - expected).max() < 1e-5

    before = kept.predict(observation(images=(again,))).raw
    again[:] = picture(4)  # a driver writes into the same buffer
    after = kept.predict(observation(images=(again,))).raw
    assert np.abs(after - before).max() > 1e-5
    expected = fresh.predict(observation(images=(picture(4),))).raw
    assert np.abs(after - expected).max() < 1e-5


def test_only_images_that_changed_are_looked_at(made, monkeypatch) -> None:
    policy = load(made, steps=1)
    policy.warm_up()
    seen = [0]
    look = DaViT.forward

    def count(self, images):
        seen[-1] += len(images)
        return look(self, images)

    monkeypatch.setattr(DaViT, "forward", count)
    views = [picture(i) for i in range(4)]
    for images in (
        (views[0], views[1], views[2]),
        (views[0].copy(), views[1], views[2]),
        (views[0], views[3], views[2]),
        (views[0], views[3], None),
        (views[0], views[3], views[2]),
    ):
        policy.predict(observation(images=images))
        seen.append(0)

    assert seen[:-1] == [3, 0, 1, 0, 1]


def test_another_domain_brings_its_own_conventions(folder) -> None:
    libero = load(folder, domain_id=3)
    assert libero.step_dt == pytest.approx(1 / 30)

    entry = {"id": 9, "name": "mine", "step_dt": 0.2, "gripper_closed_is_one": False}
    (folder / "domains.json").write_text(json.dumps({"domains": [entry]}))
    mine = load(folder, domain_id=9)
    prediction = mine.predict(observation())
    assert (mine.step_dt, mine.domain_id) == (0.2, 9)
    assert np.allclose(prediction.gripper, 1.0 - prediction.raw[:, 9])


def test_a_network_with_a_longer_state_gets_zeros_there(make, folder) -> None:
    torch.manual_seed(0)
    save_checkpoint(XVLA(replace(make.SMALLEST, dim_proprio=32)), folder)

    assert load(folder).predict(observation()).raw.shape == (30, 20)


def test_fast_images_are_an_approximation_by_name(made) -> None:
    exact, fast = load(made).predict(observation()), load(made, images="fast")

    assert fast.approximation == "fast images"
    assert 0.0 < np.abs(fast.predict(observation()).raw - exact.raw).max() < 0.02


def test_a_folder_of_lerobots_own_defaults_runs(make, tmp_path) -> None:
    config = replace(make.SMALLEST, num_actions=32, dim_proprio=32, text_length=64)
    make.folder(tmp_path, config)
    content = json.loads((tmp_path / "config.json").read_text())
    for key in ("model_type", "num_actions", "dim_proprio", "text_length"):
        del content[key]
    # chunk_size 32, max_state_dim 32 and tokenizer_max_length 64 are what LeRobot leaves out.
    (tmp_path / "config.json").write_text(json.dumps(content | {"type": "xvla"}))
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(CheckpointError, match="size 224 gives"):
        load(tmp_path)
    write_preprocessor_config(tmp_path, ImageTransform(size=48))
    policy = load(tmp_path)

    assert policy.horizon == 32
    assert policy.predict(observation()).raw.shape == (32, 20)
    assert "1/fps" in policy.doubts[0]


@pytest.mark.parametrize("kept", [torch.float16, torch.bfloat16])
def test_weights_in_half_precision_run_in_full(folder, kept) -> None:
    path = folder / "model.safetensors"
    halves = {name: tensor.to(kept) for name, tensor in load_file(path).items()}
    save_file(halves, path)
    exact = load(folder).predict(observation()).raw
    wide = {name: tensor.float() for name, tensor in halves.items()}
    save_file(wide, path)

    assert np.array_equal(load(folder).predict(observation()).raw, exact)


def test_stated_conventions_hold_for_chunks(made) -> None:
    stated = Overrides(step_dt=0.1, gripper_closed_is_one=False, close_above=0.9, open_below=0.1)
    policy = load(made, overrides=stated)
    prediction = policy.predict(observation())

    assert (policy.step_dt, policy.gripper_threshold, policy.open_below) == (0.1, 0.9, 0.1)
    assert np.allclose(prediction.gripper, 1.0 - prediction.raw[:, 9])
    assert "stated by parameters: step_dt" in policy.conventions


def test_an_action_mode_that_is_stated_is_the_one_that_is_run(folder) -> None:
    plain = load(folder).predict(observation()).raw
    edit(folder, "config.json", action_mode="auto")
    stated = load(folder, overrides=Overrides(action_mode="ee6d"))

    assert np.array_equal(stated.predict(observation()).raw, plain)


def test_weights_with_another_hash_than_the_given_one_are_refused(made) -> None:
    digest = hashlib.sha256((made / "model.safetensors").read_bytes()).hexdigest()

    assert load(made, sha256=digest).model_hash == digest
    with pytest.raises(CheckpointError, match=f"SHA-256 is {digest}, but the given hash says 00"):
        load(made, sha256="0" * 64)


def test_warm_up_runs_the_network(made) -> None:
    assert load(made).warm_up() > 0.0


def test_no_image_is_refused(made) -> None:
    with pytest.raises(ValueError, match="no image"):
        load(made).predict(observation(images=(None, None, None)))


def test_a_pose_that_is_not_finite_is_refused(made) -> None:
    with pytest.raises(ValueError, match="not finite"):
        load(made).predict(observation(pose=Pose(np.array([np.nan, 0, 0]), np.eye(3))))


def test_a_network_that_answers_nan_gives_no_chunk(folder) -> None:
    model = load_checkpoint(folder)
    with torch.no_grad():
        model.transformer.action_decoder.bias.weight[0, 2] = torch.nan
    save_checkpoint(model, folder)

    with pytest.raises(PredictionError, match=r"not finite \(step 0"):
        load(folder).predict(observation())


def test_a_network_that_answers_no_rotation_gives_no_chunk(folder) -> None:
    model = load_checkpoint(folder)
    with torch.no_grad():
        model.transformer.action_decoder.fc.weight.zero_()
        model.transformer.action_decoder.bias.weight.zero_()
    save_checkpoint(model, folder)

    with pytest.raises(PredictionError, match="rotation"):
        load(folder).predict(observation())


def test_a_closed_policy_does_not_predict(made) -> None:
    policy = load(made)
    policy.close()

    with pytest.raises(RuntimeError, match="closed"):
        policy.predict(observation())


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("config.json", {"action_mode": "joint"}, ("'joint'", "ee6d")),
        ("config.json", {"num_domains": 2}, ("num_domains = 2", "domain 4")),
        ("config.json", {"max_len_seq": 100}, ("max_len_seq = 100", "110")),
        ("preprocessor_config.json", {"size": {"height": 112, "width": 112}}, ("max_pos_em", "7")),
    ],
)
def test_files_that_do_not_fit_together_are_named(folder, name, values, words) -> None:
    edit(folder, name, **values)

    with pytest.raises(CheckpointError) as caught:
        load(folder, domain_id=4)
    assert all(word in str(caught.value) for word in ("config.json", *words))


def test_a_tokenizer_of_another_model_is_named(folder) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["vocab"] |= {f"word{i}": 288 + i for i in range(30)}
    (folder / "tokenizer.json").write_text(json.dumps(content))

    with pytest.raises(CheckpointError, match=r"tokenizer\.json: 318 tokens.*vocab_size = 300"):
        load(folder)


def test_an_unknown_domain_is_named(made) -> None:
    with pytest.raises(CheckpointError, match="domain 11"):
        load(made, domain_id=11)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"steps": 0}, "step"),
        ({"steps": [0.5, 0.9]}, "descend"),
        ({"dtype": "int8"}, "float32"),
        ({"quantize": "int4"}, "int8"),
    ],
)
def test_an_option_out_of_range_is_refused(made, options, word) -> None:
    with pytest.raises(ValueError, match=word):
        load(made, **options)


def test_an_unknown_device_is_refused_and_nothing_else_is_used_instead(made) -> None:
    with pytest.raises(DeviceError):
        load(made, device="cuda:7")
