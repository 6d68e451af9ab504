"""Lets this venv find what ``colcon build`` installed, without sourcing anything.

Usage: ``python scripts/link_install.py PREFIX`` with the package's install prefix. Writes a
``.pth`` file for the generated Python messages and a module, run at the start of the interpreter,
for the library path and the ament prefixes.
"""

import sys
import sysconfig
from pathlib import Path

ENVIRONMENT = '''"""Library path and ament prefixes of {name}, from scripts/link_install.py."""

import os
import sys


def _prepend(variable: str, *entries: str) -> bool:
    known = [entry for entry in os.environ.get(variable, "").split(os.pathsep) if entry]
    missing = [entry for entry in entries if entry not in known]
    os.environ[variable] = os.pathsep.join(missing + known)
    return bool(missing)


if _prepend("LD_LIBRARY_PATH", {lib!r}, os.path.join(sys.prefix, "lib")):
    # The dynamic linker reads the path at the start of a process only. The ROS wheels restart the
    # interpreter for that, once per tree of processes unless their mark is taken away.
    os.environ.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", None)
_prepend("AMENT_PREFIX_PATH", {prefix!r}, sys.prefix)
'''


def link(prefix: Path, site_packages: Path) -> None:
    """Writes the two files into ``site_packages``."""
    generated = prefix / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    if not (generated / prefix.name / "msg").is_dir():
        raise SystemExit(f"{generated / prefix.name}: no generated messages; run 'make build'")
    module = f"_{prefix.name}_environment"
    text = ENVIRONMENT.format(name=prefix.name, lib=str(prefix / "lib"), prefix=str(prefix))
    (site_packages / f"{module}.py").write_text(text)
    # The underscore sorts it before the ROS wheels' own file, which restarts the interpreter.
    (site_packages / f"_{prefix.name}.pth").write_text(f"{generated}\nimport {module}\n")


if __name__ == "__main__":
    link(Path(sys.argv[1]).resolve(), Path(sysconfig.get_path("purelib")))
