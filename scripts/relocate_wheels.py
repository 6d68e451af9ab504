"""Points the CMake files of the ROS wheels in this venv at this machine's Python and numpy.

The wheels' exports of generated Python messages name the include folders of the machine that built
the wheels, and CMake refuses folders that do not exist.
"""

import re
import sys
import sysconfig
from pathlib import Path

import numpy

NUMPY_INCLUDE = re.compile(r"/opt/python/[^;\"]*/numpy/(?:_core|core)/include")
PYTHON_INCLUDE = re.compile(r"/opt/python/[^;\"]*/include/python3\.\d+")


def relocate(prefix: Path) -> int:
    """Rewrites the exports below ``prefix/share``; returns how many files changed."""
    changed = 0
    for path in sorted(prefix.glob("share/*/cmake/*__rosidl_generator_py*Export.cmake")):
        text = path.read_text()
        new = NUMPY_INCLUDE.sub(numpy.get_include(), text)
        new = PYTHON_INCLUDE.sub(sysconfig.get_path("include"), new)
        if new != text:
            # A new file: pip may have hard-linked this one from a cache.
            path.unlink()
            path.write_text(new)
            changed += 1
    return changed


if __name__ == "__main__":
    print(f"relocated {relocate(Path(sys.prefix))} CMake files of the ROS wheels")
