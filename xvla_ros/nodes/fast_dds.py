"""Room for images in Fast DDS's shared memory.

A raw 640x480 frame does not fit the default segment of 512 kB: its fragments are dropped and a
best-effort subscriber silently loses about half of the frames. The cure is a larger segment in
the process that publishes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import MutableMapping
from pathlib import Path

PROFILE = "fastdds_images.xml"
VARIABLE = "FASTRTPS_DEFAULT_PROFILES_FILE"
# Both names are read, the second since Fast DDS 2.12.
_VARIABLES = (VARIABLE, "FASTDDS_DEFAULT_PROFILES_FILE")
SEGMENT_BYTES = 8 * 1024 * 1024
_SHARED_MEMORY = Path("/dev/shm")


def use_large_segment(
    environment: MutableMapping[str, str] = os.environ, shared_memory: Path = _SHARED_MEMORY
) -> str | None:
    """Makes the Fast DDS participants of this process take the larger segment.

    To be called before rclpy.init. Leaves a profile that the user has chosen alone, and another
    middleware.

    Returns:
        None if frames will fit, else one line that says why they may be lost and the mend.
    """
    middleware = environment.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp")
    if "fastrtps" not in middleware or any(environment.get(name) for name in _VARIABLES):
        return None
    free = shutil.disk_usage(shared_memory).free if shared_memory.is_dir() else 0
    if free < SEGMENT_BYTES:
        return (
            f"{shared_memory} has {free // 1024} kB free and images need {SEGMENT_BYTES // 1024}: "
            "frames will be lost; enlarge it (docker run --shm-size=256m) or use compressed images"
        )
    profile = profile_file()
    if profile is None:
        return f"config/{PROFILE} is not installed: raw frames will be lost over Fast DDS"
    environment[VARIABLE] = str(profile)
    return None


def profile_file() -> Path | None:
    """The profile, in the source tree or in the install space this file belongs to."""
    for parent in Path(__file__).resolve().parents:
        for folder in (parent / "config", parent / "share" / "xvla_ros" / "config"):
            if (folder / PROFILE).is_file():
                return folder / PROFILE
    return None
