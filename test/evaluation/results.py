"""Results of evaluations on a small bag as `xvla evaluate bag` leaves them, and their pages."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from xvla_ros.evaluation import bag_run
from xvla_ros.evaluation.bag.files import find
from xvla_ros.evaluation.bag_settings import plan
from xvla_ros.runtime.interface import Policy


def make(
    paths: Sequence[Path], out: Path, policy: Policy, params: Path | None = None, seeds: int = 1
) -> Path:
    """Evaluates a policy that is not in a folder; returns `out`."""
    chosen = plan(params, Path("turner"), Path("turner"), {"seeds": seeds})
    chosen = replace(chosen, settings=replace(chosen.settings, episode_gap_s=1.0))
    out.mkdir(parents=True)
    with patch.object(bag_run, "load", lambda _model: policy):
        bag_run.BagRun(find(paths), chosen, out).run(1, lambda _name, _share: None)
    return out


def browse(page: str, folder: Path, script: str = "") -> str:
    """The page's document after its scripts, and one more, have run without an error."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium (apt-get install chromium)")
    errors = "window.onerror = (text) => { document.documentElement.dataset.error = text; };"
    page = page.replace("<head>", f"<head><script>{errors}</script>")
    page = page.replace("</body>", f"<script>{script}</script></body>")
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [
        *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--disable-background-networking", f"--user-data-dir={folder / 'profile'}"),
        *("--virtual-time-budget=2000", "--dump-dom", path.as_uri()),
    ]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=280, check=True).stdout
    # What the scripts made, without the scripts.
    body = re.sub(r"<script.*?</script>|<style.*?</style>", "", shown, flags=re.S)
    assert "data-error" not in body, re.findall(r'data-error="[^"]*"', body)
    return html.unescape(re.sub(r"data:image/jpeg;base64,[A-Za-z0-9+/=]+", "", body))
