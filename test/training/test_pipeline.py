"""The whole making of a checkpoint, at a size that takes seconds."""

import numpy as np

from xvla_ros.geometry import Pose
from xvla_ros.runtime.policy import PolicyInput, load_policy
from xvla_ros.training.pipeline import FIRST_SEED, Pipeline


def test_a_run_records_trains_corrects_and_leaves_a_policy(tmp_path, recipe):
    done: dict[str, int] = {}

    def progress(what: str, count: int, total: int) -> None:
        done[what] = count
        assert count <= total

    history = Pipeline(tmp_path / "model", tmp_path / "cache", recipe, 1, progress).run()

    assert done == {"demonstrations": 1, "training": 6}
    assert history.steps == 6
    assert 0 < history.expert_pictures < history.pictures
    policy = load_policy(tmp_path / "model", device="cpu", threads=1)
    image = np.full((480, 640, 3), 128, np.uint8)
    chunk = policy.predict(PolicyInput((image, image, None), Pose.identity(), "pick up", 0))
    assert chunk.positions.shape == (30, 3)
    # The output starts from the mean of its labels: somewhere above the table.
    assert 0.1 < chunk.positions[:, 0].mean() < 0.4
    recorded = sorted(path.name for path in (tmp_path / "cache").glob("*.npz"))
    assert recorded == [
        f"expert-{FIRST_SEED}.npz",
        f"round-00002-{FIRST_SEED + 10_000}.npz",
    ]
