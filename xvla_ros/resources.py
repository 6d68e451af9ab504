"""Where the package's data files are: config, launch and models.

They lie in the root of a source tree, and in share/xvla_ros of an installation.
"""

from pathlib import Path

PACKAGE = "xvla_ros"


def share_folder(start: Path = Path(__file__)) -> Path:
    """The folder that holds config, launch and models beside the module at `start`.

    Raises:
        FileNotFoundError: the package was installed without its data, by pip alone.
    """
    for parent in start.absolute().parents:
        for folder in (parent, parent / "share" / PACKAGE):
            if (folder / "package.xml").is_file() and (folder / "config").is_dir():
                return folder
    raise FileNotFoundError(
        f"no config/ of {PACKAGE} above {start}: build with colcon, or pip install -e the source"
    )


def config_file(name: str) -> Path:
    """A file of config/."""
    return share_folder() / "config" / name


def demo_model() -> Path:
    """Folder of the demonstration checkpoint."""
    return share_folder() / "models" / "demo"
