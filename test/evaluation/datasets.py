"""LeRobot datasets for tests: a WidowX that moves forward, its gripper straight down.

Frame k of episode e is at x = 0.20 m + 10 mm k, and its pictures have the grey 40 + 16 k + 20 e.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FPS = 5.0
LENGTHS = (12, 9)
TASKS = ("push the cube", "close the drawer")
CAMERAS = ("observation.images.image_1", "observation.images.image_0")
NAMES = ("x", "y", "z", "roll", "pitch", "yaw", "pad", "gripper")


def state(frame: int, episode: int = 0, width: int = 8) -> list[float]:
    gripper = (1.0, 0.0)[episode]
    return [0.20 + 0.01 * frame, 0.0, 0.15, 0.0, 0.0, 0.0, *[0.0] * (width - 7), gripper]


def grey(frame: int, episode: int) -> int:
    return 40 + 16 * frame + 20 * episode


def picture(frame: int, episode: int, camera: str) -> np.ndarray:
    """Grey; the main camera sees in reddish."""
    tone = grey(frame, episode)
    red = tone + (30 if camera.endswith("image_0") else 0)
    return np.full((48, 64, 3), (red, tone, tone), np.uint8)


def video(path: Path, frames: list[np.ndarray], fps: float = FPS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), fps, (64, 48))
    assert writer.isOpened()
    for frame in frames:
        writer.write(np.ascontiguousarray(frame[..., ::-1]))
    writer.release()


def png(rgb: np.ndarray) -> dict[str, Any]:
    ok, data = cv2.imencode(".png", np.ascontiguousarray(rgb[..., ::-1]))
    assert ok
    return {"bytes": data.tobytes(), "path": None}


def columns(episode: int, dtype: str, width: int) -> dict[str, list[Any]]:
    frames = range(LENGTHS[episode])
    first = sum(LENGTHS[:episode])
    pictures = {c: [png(picture(k, episode, c)) for k in frames] for c in CAMERAS}
    return {
        "observation.state": [state(k, episode, width) for k in frames],
        "timestamp": [k / FPS for k in frames],
        "frame_index": list(frames),
        "episode_index": [episode] * len(frames),
        "index": [first + k for k in frames],
        "task_index": [episode] * len(frames),
        **(pictures if dtype == "image" else {}),
    }


def parquet(path: Path, content: dict[str, list[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(content), path)


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def info(root: Path, version: str, dtype: str, width: int) -> None:
    names = [name for name in NAMES if name != "pad" or width == 8]
    features: dict[str, Any] = {
        camera: {"dtype": dtype, "shape": [48, 64, 3], "names": ["height", "width", "rgb"]}
        for camera in CAMERAS
    }
    features["observation.state"] = {
        "dtype": "float32",
        "shape": [width],
        "names": {"motors": names},
    }
    for name in ("timestamp", "frame_index", "episode_index", "index", "task_index"):
        features[name] = {"dtype": "int64", "shape": [1], "names": None}
    (root / "meta").mkdir(parents=True)
    content = {
        "codebase_version": version,
        "robot_type": "widowx",
        "fps": FPS,
        "chunks_size": 1000,
        "features": features,
    }
    (root / "meta/info.json").write_text(json.dumps(content))


def write_v21(root: Path, dtype: str = "video", width: int = 8) -> Path:
    info(root, "v2.1", dtype, width)
    rows = [{"task_index": k, "task": task} for k, task in enumerate(TASKS)]
    lines(root / "meta/tasks.jsonl", rows)
    episodes = enumerate(LENGTHS)
    rows = [{"episode_index": e, "tasks": [TASKS[e]], "length": n} for e, n in episodes]
    lines(root / "meta/episodes.jsonl", rows)
    for e, length in enumerate(LENGTHS):
        parquet(root / f"data/chunk-000/episode_{e:06d}.parquet", columns(e, dtype, width))
        if dtype == "video":
            for camera in CAMERAS:
                path = root / f"videos/chunk-000/{camera}/episode_{e:06d}.mp4"
                video(path, [picture(k, e, camera) for k in range(length)])
    return root


def write_v3(root: Path, dtype: str = "video", width: int = 8) -> Path:
    info(root, "v3.0", dtype, width)
    # As pandas writes a frame whose index is the text.
    tasks: dict[str, list[Any]] = {"task_index": [0, 1], "__index_level_0__": list(TASKS)}
    parquet(root / "meta/tasks.parquet", tasks)
    by_episode = [columns(e, dtype, width) for e in range(len(LENGTHS))]
    joined = {name: [v for part in by_episode for v in part[name]] for name in by_episode[0]}
    parquet(root / "data/chunk-000/file-000.parquet", joined)
    described: dict[str, list[Any]] = {
        "episode_index": [0, 1],
        "tasks": [[task] for task in TASKS],
        "length": list(LENGTHS),
        "data/chunk_index": [0, 0],
        "data/file_index": [0, 0],
        "stats/index/min": [[0], [LENGTHS[0]]],
    }
    if dtype == "video":
        for camera in CAMERAS:
            described |= {
                f"videos/{camera}/chunk_index": [0, 0],
                f"videos/{camera}/file_index": [0, 0],
                f"videos/{camera}/from_timestamp": [0.0, LENGTHS[0] / FPS],
                f"videos/{camera}/to_timestamp": [LENGTHS[0] / FPS, sum(LENGTHS) / FPS],
            }
            frames = [picture(k, e, camera) for e, n in enumerate(LENGTHS) for k in range(n)]
            video(root / f"videos/{camera}/chunk-000/file-000.mp4", frames)
    parquet(root / "meta/episodes/chunk-000/file-000.parquet", described)
    return root


WRITERS = {"v2.1": write_v21, "v3.0": write_v3}
