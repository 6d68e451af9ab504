"""A LeRobot dataset on disk: which file holds which episode.

Layouts: huggingface/lerobot, codebase versions v2.0, v2.1 (a file per episode) and v3.0 (many
episodes in a file).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from xvla_ros.evaluation.bag.files import BagError

INFO = Path("meta/info.json")
VIDEO, IMAGE = "video", "image"
_V2, _V3 = ("v2.0", "v2.1"), ("v3.0",)
_CHUNK = 1000
_V2_DATA = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
_V2_VIDEO = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
_V3_DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_V3_VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"


@dataclass(frozen=True)
class Clip:
    """Where an episode's video is."""

    path: Path
    start_s: float = 0.0
    """Time of the episode's first frame in the file."""


@dataclass(frozen=True)
class EpisodeFiles:
    """One episode and its files; whether they exist is seen when they are read."""

    index: int
    length: int
    """Frames."""
    tasks: tuple[str, ...]
    data: Path
    clips: Mapping[str, Clip] = field(default_factory=dict)
    """By camera."""


class Dataset:
    """The description of a dataset.

    Attributes:
        version: codebase version, e.g. `v2.1`.
        fps: frames per second.
        features: by name, as info.json has them.
        robot: robot_type, or empty.
        tasks: instruction by task_index.
        episodes: in the order of their indices.

    Raises:
        BagError: the description is missing, cannot be read, or is of an unknown version.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._kept: tuple[Path, tuple[str, ...], Any] | None = None
        info = self._info()
        self.version = str(info.get("codebase_version", "none"))
        if self.version not in (*_V2, *_V3):
            raise BagError(
                f"{INFO}: codebase_version {self.version} is not one of "
                f"{', '.join((*_V2, *_V3))}: convert the dataset with LeRobot"
            )
        self._old = self.version in _V2
        try:
            self.fps = float(info["fps"])
            self.features = {str(k): dict(v) for k, v in info["features"].items()}
            self._chunk = int(info.get("chunks_size") or _CHUNK)
            self._data = str(info.get("data_path") or (_V2_DATA if self._old else _V3_DATA))
            self._video = str(info.get("video_path") or (_V2_VIDEO if self._old else _V3_VIDEO))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BagError(f"{INFO}: fps or features are missing or wrong ({error})") from error
        if not (math.isfinite(self.fps) and self.fps > 0.0 and self._chunk > 0):
            raise BagError(f"{INFO}: fps is {self.fps:g} and chunks_size {self._chunk}")
        self.robot = str(info.get("robot_type") or "")
        try:
            self.tasks = self._old_tasks() if self._old else self._new_tasks()
            episodes = self._old_episodes() if self._old else self._new_episodes()
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise BagError(f"meta: an entry is missing or wrong ({one_line(error)})") from error
        self.episodes = sorted(episodes, key=lambda episode: episode.index)
        if not self.episodes:
            raise BagError("meta: the dataset has no episodes")

    def name(self, path: Path) -> str:
        """A file as one would call it inside the dataset."""
        return path.relative_to(self.root).as_posix()

    def cameras(self) -> list[str]:
        """Names of the features that are images, of whatever kind."""
        return [name for name, kind in self.features.items() if kind.get("dtype") in (VIDEO, IMAGE)]

    def rows(self, episode: EpisodeFiles, columns: Sequence[str]) -> dict[str, list[Any]]:
        """Columns of an episode's frames, in their order.

        Raises:
            BagError: the file is missing, damaged, or has another number of frames.
        """
        order = ["frame_index"] if "frame_index" in self.features else []
        table = self._frames(episode.data, ("episode_index", *order, *columns))
        table = table.filter(pc.equal(table["episode_index"], episode.index))
        if table.num_rows != episode.length:
            raise BagError(
                f"{self.name(episode.data)}: has {table.num_rows} frames of episode "
                f"{episode.index}, the description says {episode.length}"
            )
        if order:
            table = table.sort_by([(name, "ascending") for name in order])
        return {name: table[name].to_pylist() for name in columns}

    def _info(self) -> Mapping[str, Any]:
        try:
            info = json.loads((self.root / INFO).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise BagError(f"{INFO} is missing: is the dataset copied as a whole?") from error
        except (OSError, ValueError) as error:
            raise BagError(f"{INFO} cannot be read ({one_line(error)})") from error
        if not isinstance(info, dict):
            raise BagError(f"{INFO} is not an object")
        return info

    def _old_tasks(self) -> dict[int, str]:
        lines = self._lines("meta/tasks.jsonl")
        return {int(line["task_index"]): str(line["task"]).strip() for line in lines}

    def _old_episodes(self) -> list[EpisodeFiles]:
        return [
            self._old_episode(int(line["episode_index"]), int(line["length"]), line.get("tasks"))
            for line in self._lines("meta/episodes.jsonl")
        ]

    def _old_episode(self, index: int, length: int, tasks: Iterable[Any] | None) -> EpisodeFiles:
        where = {"episode_chunk": index // self._chunk, "episode_index": index}
        clips = {
            camera: Clip(self._inside(self._video.format(video_key=camera, **where)))
            for camera in self._videos()
        }
        data = self._inside(self._data.format(**where))
        return EpisodeFiles(index, length, _texts(tasks), data, clips)

    def _new_tasks(self) -> dict[int, str]:
        table = self._table(self.root / "meta/tasks.parquet")
        # The text is the index of a data frame, which was not always called `task`.
        others = [name for name in table.column_names if name != "task_index"]
        column = "task" if "task" in others else others[0]
        numbers, texts = table["task_index"].to_pylist(), table[column].to_pylist()
        return {int(k): str(text).strip() for k, text in zip(numbers, texts, strict=True)}

    def _new_episodes(self) -> list[EpisodeFiles]:
        paths = sorted((self.root / "meta/episodes").glob("chunk-*/file-*.parquet"))
        return [self._new_episode(row) for path in paths for row in self._described(path)]

    def _described(self, path: Path) -> list[dict[str, Any]]:
        try:
            # There are many columns of statistics besides.
            columns = [n for n in pq.read_schema(path).names if not n.startswith("stats/")]
        except (OSError, pa.ArrowException) as error:
            raise BagError(f"{self.name(path)}: cannot be read ({one_line(error)})") from error
        return list(self._table(path, columns).to_pylist())

    def _new_episode(self, row: Mapping[str, Any]) -> EpisodeFiles:
        clips = {}
        for camera in self._videos():
            at = f"videos/{camera}"
            path = self._video.format(
                video_key=camera,
                chunk_index=int(row[f"{at}/chunk_index"]),
                file_index=int(row[f"{at}/file_index"]),
            )
            clips[camera] = Clip(self._inside(path), float(row[f"{at}/from_timestamp"]))
        data = self._data.format(
            chunk_index=int(row["data/chunk_index"]), file_index=int(row["data/file_index"])
        )
        index, length = int(row["episode_index"]), int(row["length"])
        return EpisodeFiles(index, length, _texts(row.get("tasks")), self._inside(data), clips)

    def _inside(self, name: str) -> Path:
        """A file by its name in the dataset, which may lead nowhere else."""
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise BagError(f"{INFO}: data_path or video_path leads outside the dataset ({name})")
        return self.root / name

    def _videos(self) -> list[str]:
        return [name for name, kind in self.features.items() if kind.get("dtype") == VIDEO]

    def _lines(self, name: str) -> list[dict[str, Any]]:
        try:
            text = (self.root / name).read_text(encoding="utf-8")
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except (OSError, ValueError) as error:
            raise BagError(f"{name} cannot be read ({one_line(error)})") from error

    def _frames(self, path: Path, columns: tuple[str, ...]) -> Any:
        """Frames of all episodes of a file; one file's are kept, it may have a thousand."""
        if self._kept is None or self._kept[:2] != (path, columns):
            self._kept = None
            self._kept = (path, columns, self._table(path, list(columns)))
        return self._kept[2]

    def _table(self, path: Path, columns: list[str] | None = None) -> Any:
        try:
            return pq.read_table(path, columns=columns, partitioning=None)
        except FileNotFoundError as error:
            raise BagError(f"{self.name(path)} is missing") from error
        except (OSError, pa.ArrowException) as error:
            raise BagError(f"{self.name(path)}: cannot be read ({one_line(error)})") from error


def one_line(error: Exception) -> str:
    """What a library says of a file, without its line breaks."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _texts(tasks: Iterable[Any] | None) -> tuple[str, ...]:
    return tuple(str(task).strip() for task in tasks or ())
