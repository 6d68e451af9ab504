"""Images and instructions become the numbers that the network was trained on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from xvla_ros.model.processor import (
    ImageTransform,
    Processor,
    ProcessorError,
    write_preprocessor_config,
)

INSTRUCTIONS = [
    "",
    "pick up the red cube",
    "  Pick up the RED cube! ",
    "put the spoon on the towel; nimm den Würfel, 拿起方块",
    "pick up the red cube and then put it down again " * 9,
]


@pytest.fixture
def folder(make, tmp_path):
    write_preprocessor_config(tmp_path, ImageTransform(size=96))
    make.tokenizer().save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def clip(size: int):
    transformers = pytest.importorskip("transformers")
    return transformers.CLIPImageProcessor(
        size={"height": size, "width": size},
        resample=3,
        do_center_crop=False,
        image_mean=[0.485, 0.456, 0.406],
        image_std=[0.229, 0.224, 0.225],
    )


def picture(shape, seed=0):
    """Smooth and noisy parts, black and white corners."""
    rng = np.random.default_rng(seed)
    height, width = shape
    y, x = np.mgrid[0:height, 0:width]
    image = np.stack([x * 255 // width, y * 255 // height, (x + y) % 256], axis=-1)
    image[height // 3 : height // 2] = rng.integers(0, 256, image[height // 3 : height // 2].shape)
    image[:5, :5], image[-5:, -5:] = 0, 255
    return image.astype(np.uint8)


@pytest.mark.parametrize("size", [96, 224])
@pytest.mark.parametrize("shape", [(480, 640), (224, 224), (37, 501), (96, 97), (11, 5)])
def test_an_image_is_what_the_clip_processor_makes_of_it(shape, size) -> None:
    image = picture(shape)
    expected = clip(size)(image, return_tensors="np")["pixel_values"][0]
    out = ImageTransform(size=size)(image)

    assert out.dtype == np.float32
    assert out.shape == (3, size, size)
    assert np.array_equal(out, expected)


def test_real_photographs_are_what_the_clip_processor_makes_of_them(bridge_data) -> None:
    files = [*bridge_data.glob("*.png"), *bridge_data.glob("episode_0*/*step0.jpg")]
    assert files
    for file in files:
        image = np.asarray(Image.open(file).convert("RGB"))
        expected = clip(224)(image, return_tensors="np")["pixel_values"][0]
        assert np.array_equal(ImageTransform()(image), expected), file


def differences(image, size=224):
    """Levels between the fast and the exact image, by number."""
    exact = ImageTransform(size=size).squash(image).astype(int)
    return np.abs(ImageTransform(size=size, fast=True).squash(image) - exact)


@pytest.mark.parametrize("shape", [(480, 640), (720, 1280), (224, 224), (37, 501), (11, 5)])
def test_fast_images_are_a_few_levels_off(shape) -> None:
    found = differences(picture(shape))

    assert found.max() <= 3
    assert (found > 0).mean() < 0.05


def test_fast_images_of_real_photographs_are_a_few_levels_off(bridge_data) -> None:
    files = [*bridge_data.glob("*.png"), *bridge_data.glob("episode_*/*step0.jpg")]
    assert files
    for file in files:
        found = differences(np.asarray(Image.open(file).convert("RGB")))
        assert found.max() <= 3, file
        assert (found > 0).mean() < 0.05, file


def test_the_exact_image_is_the_default_and_both_are_normalised_alike(folder) -> None:
    exact = Processor.from_folder(folder)
    fast = exact.hurried()
    image = picture((480, 640))

    assert not exact.transform.fast
    assert np.abs(fast.images([image])[0] - exact.images([image])[0]).max() < 3 / 255 / 0.22
    assert np.array_equal(fast.text("red cube"), exact.text("red cube"))
    frozen = picture((48, 64))
    frozen.flags.writeable = False
    assert fast.transform(frozen[::2, ::-1, ::-1]).shape == (3, 96, 96)


def test_a_uniform_image_is_normalised_by_channel() -> None:
    image = np.full((30, 40, 3), (255, 0, 51), np.uint8)
    out = ImageTransform(size=8)(image)

    assert np.allclose(out[0], (1 - 0.485) / 0.229, atol=1e-6)
    assert np.allclose(out[1], -0.456 / 0.224, atol=1e-6)
    assert np.allclose(out[2], (0.2 - 0.406) / 0.225, atol=1e-6)


def test_an_image_that_is_a_view_of_another_array_is_read_as_it_looks() -> None:
    bgr = picture((48, 64))
    rgb = np.ascontiguousarray(bgr[::2, ::-1, ::-1])

    transform = ImageTransform(size=32)
    assert np.array_equal(transform(bgr[::2, ::-1, ::-1]), transform(rgb))


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((8, 8, 3), np.float32),
        np.zeros((8, 8), np.uint8),
        np.zeros((8, 8, 4), np.uint8),
        np.zeros((0, 8, 3), np.uint8),
    ],
)
def test_what_is_no_rgb_image_is_refused(image) -> None:
    with pytest.raises(ValueError, match="uint8 RGB"):
        ImageTransform()(image)


def test_there_are_always_three_slots(folder) -> None:
    processor = Processor.from_folder(folder)
    image = picture((48, 64))
    pixels, mask = processor.images([image, None])

    assert pixels.shape == (3, 3, 96, 96)
    assert mask.tolist() == [True, False, False]
    assert np.array_equal(pixels[0], ImageTransform(size=96)(image))
    assert not pixels[1:].any()


def test_an_image_stays_in_its_slot(folder) -> None:
    pixels, mask = Processor.from_folder(folder).images([None, None, picture((48, 64))])

    assert mask.tolist() == [False, False, True]
    assert pixels[2].any()


def test_more_views_than_slots_are_refused(folder) -> None:
    with pytest.raises(ValueError, match="4 views for 3 slots"):
        Processor.from_folder(folder).images([None] * 4)


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_ids_are_those_of_the_bart_tokenizer(folder, make, instruction) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.BartTokenizerFast(tokenizer_object=make.tokenizer())
    expected = theirs(instruction, padding="max_length", max_length=50, truncation=True)
    ids = Processor.from_folder(folder).text(instruction)

    assert ids.dtype == np.int64
    assert ids.tolist() == expected["input_ids"]


def test_an_empty_instruction_is_begin_end_and_padding(folder) -> None:
    assert Processor.from_folder(folder).text("").tolist() == [0, 2] + [1] * 48


def test_a_long_instruction_is_cut_but_still_ends(folder) -> None:
    ids = Processor.from_folder(folder).text("cube " * 200)

    assert len(ids) == 50
    assert (ids[0], ids[-1]) == (0, 2)


def test_padding_and_truncation_of_the_file_do_not_matter(folder, make) -> None:
    expected = Processor.from_folder(folder).text("pick up the red cube")
    tokenizer = make.tokenizer()
    tokenizer.enable_padding(length=7, pad_id=2, direction="left")
    tokenizer.enable_truncation(3)
    tokenizer.save(str(folder / "tokenizer.json"))

    assert np.array_equal(Processor.from_folder(folder).text("pick up the red cube"), expected)


def test_a_written_configuration_reads_back_the_same(folder) -> None:
    assert Processor.from_folder(folder).transform == ImageTransform(size=96)


def test_a_published_configuration_is_the_default(folder, write_json) -> None:
    published = {
        "do_center_crop": False,
        "do_convert_rgb": None,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
        "resample": 3,
        "rescale_factor": 0.00392156862745098,
        "size": {"height": 224, "width": 224},
    }
    write_json(folder / "preprocessor_config.json", published)

    assert Processor.from_folder(folder).transform == ImageTransform()


def test_only_a_lerobot_folder_may_lack_the_image_size(folder, write_json) -> None:
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(ProcessorError, match=r"preprocessor_config\.json: no such file"):
        Processor.from_folder(folder)

    write_json(folder / "config.json", {"type": "xvla"})
    assert Processor.from_folder(folder).image_size == 224


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"do_center_crop": True}, "do_center_crop"),
        ({"do_normalize": False}, "do_normalize"),
        ({"size": {"shortest_edge": 224}}, "size"),
        ({"size": {"height": 224, "width": 112}}, "size"),
        ({"size": -3}, "size"),
        ({"image_std": [1.0]}, "image_std"),
        ({"image_mean": 0.5}, "image_mean"),
        ({"resample": "cubic"}, "resample"),
        ({"resample": 77}, "resample"),
    ],
)
def test_an_unsupported_transform_is_named(folder, write_json, change, word) -> None:
    path = folder / "preprocessor_config.json"
    write_json(path, json.loads(path.read_text()) | change)

    with pytest.raises(ProcessorError) as caught:
        Processor.from_folder(folder)
    assert str(path) in str(caught.value)
    assert word in str(caught.value)


def test_a_missing_tokenizer_says_where_to_get_it(folder) -> None:
    (folder / "tokenizer.json").unlink()

    with pytest.raises(ProcessorError, match=r"tokenizer\.json: no such file.*bart-large"):
        Processor.from_folder(folder)


def test_a_broken_tokenizer_is_named(folder) -> None:
    (folder / "tokenizer.json").write_text("{}")

    with pytest.raises(ProcessorError, match=r"tokenizer\.json: not a tokenizer"):
        Processor.from_folder(folder)


def test_a_tokenizer_without_begin_and_end_is_refused(folder) -> None:
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["post_processor"] = None
    path.write_text(json.dumps(content))

    with pytest.raises(ProcessorError, match=r"<s> = 0.*gives \[\]"):
        Processor.from_folder(folder)
