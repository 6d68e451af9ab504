"""The pip side of the package: the Python code, the `xvla` command, and the optional libraries.

The name, version and description come from package.xml, so that colcon and pip cannot disagree.
"""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
MANIFEST = ElementTree.parse(HERE / "package.xml").getroot()


def manifest(tag: str) -> str:
    """The text of one element of package.xml, on one line."""
    return " ".join(MANIFEST.findtext(tag, "").split())


EXTRAS = {
    # Running a checkpoint. On Ascend, torch and torch_npu are chosen as a pair instead.
    "policy": ["torch>=2.5", "safetensors>=0.4", "tokenizers>=0.20", "Pillow>=10", "tqdm>=4.66"],
    "sim": ["mujoco>=3.2"],
    "eval": [
        "rosbags>=0.10",
        "matplotlib>=3.8",
        "pyarrow>=15,<22",  # later ones refuse numpy 1.26, which Ascend needs
        "tqdm>=4.66",
        "rich>=13",
    ],
    "bench": ["transformers==4.57.1", "einops>=0.8"],
    "test": [
        "pytest>=8",
        "pytest-timeout>=2.3",
        "hypothesis>=6.100",
        "pin>=2.7",
        "ruff>=0.8",
        "mypy>=1.11",
        "types-PyYAML",
    ],
}

setup(
    name=manifest("name").replace("_", "-"),
    version=manifest("version"),
    description=manifest("description"),
    license=manifest("license"),
    # With a source root an editable install is one line in a .pth file, so that the source comes
    # before the installed copy on sys.path and the generated messages join it.
    package_dir={"": "."},
    packages=find_packages(include=["xvla_ros", "xvla_ros.*"]),
    package_data={"xvla_ros.evaluation.report": ["*.html", "*.css", "*.js"]},
    python_requires=">=3.10",
    install_requires=[
        "numpy>=1.26.4,<2.3",
        "opencv-python-headless",
        "transforms3d>=0.4.2",
        "PyYAML>=6",
        "ruckig>=0.14",
    ],
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["xvla = xvla_ros.cli:main"]},
)
