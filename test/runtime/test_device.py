"""What a user is told who asks for a device, with the causes made real in child processes.

The small torch_npu packages written here stand for a third party's in states that need a card or
a broken installation; the most frequent state, no CANN, is shown by the real package.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from xvla_ros.runtime.device import Device, DeviceError, resolve_device

REPOSITORY = Path(__file__).parents[2]
RELEASE = torch.__version__.split("+")[0]
WORKING = """
import sys, torch, types
__version__ = "{version}"
calls = []
npu = types.ModuleType("torch.npu")
npu.device_count = lambda: {count}
npu.is_available = lambda: True
npu.set_device = lambda device: calls.append(("set_device", device))
npu.get_device_name = lambda index: f"Ascend910B3 #{{index}}"
npu.synchronize = lambda device=None: calls.append(("synchronize", device))
npu.set_compile_mode = lambda jit_compile: calls.append(("jit_compile", jit_compile))
npu.empty_cache = lambda: calls.append(("empty_cache",))
npu.mem_get_info = lambda device: (60, 64)
npu.memory_allocated = lambda device: 2
npu.memory_reserved = lambda device: 3
torch.utils.rename_privateuse1_backend("npu")
torch._register_device_module("npu", npu)
"""


@pytest.fixture
def python_path(tmp_path, monkeypatch):
    """Folder that child processes search first; holds what a test puts there."""
    for name in ("ASCEND_RT_VISIBLE_DEVICES", "ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"):
        monkeypatch.delenv(name, raising=False)
    paths = [str(tmp_path), str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    return tmp_path


def install(folder, name, version, code=None):
    """A distribution with its metadata, and with `code` as its package."""
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if code is not None:
        package = folder / name.replace("-", "_")
        package.mkdir()
        (package / "__init__.py").write_text(code)
        (metadata / "entry_points.txt").write_text(
            "[torch.backends]\ntorch_npu = torch_npu:_autoload\n"
        )


def install_torch_npu(folder, code, version=RELEASE):
    install(folder, "torch-npu", version, code)


def working(count=1, version=RELEASE, extra=""):
    return WORKING.format(count=count, version=version) + extra


def refused(spec, **options):
    with pytest.raises(DeviceError) as error:
        resolve_device(spec, **options)
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith(f"{spec if ':' in spec else spec + ':0'} is not usable: ")
    return text


def run(code):
    """What a fresh interpreter prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def real_torch_npu(tmp_path_factory):
    """The real torch-npu package, in a folder of its own."""
    folder = tmp_path_factory.mktemp("torch_npu")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    done = subprocess.run(
        [*pip, f"torch-npu=={RELEASE}"], capture_output=True, text=True, timeout=250, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"torch-npu=={RELEASE} cannot be installed here: {done.stderr.strip()[-200:]}")
    return folder


def test_the_real_torch_npu_without_cann_is_explained(real_torch_npu, python_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{real_torch_npu}{os.pathsep}{REPOSITORY}")
    text = refused("npu")
    assert "torch_npu does not find libhccl.so: the CANN environment is not sourced" in text
    assert "set_env.sh" in text


def test_the_real_torch_npu_breaks_torch_but_not_this_package(
    real_torch_npu, python_path, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", f"{real_torch_npu}{os.pathsep}{REPOSITORY}")
    monkeypatch.delenv("TORCH_DEVICE_BACKEND_AUTOLOAD", raising=False)
    plain = subprocess.run(
        [sys.executable, "-c", "import torch"], capture_output=True, text=True, check=False
    )
    assert plain.returncode != 0
    assert "Failed to load the backend extension: torch_npu" in plain.stderr
    code = """
        import json
        from xvla_ros.runtime.device import resolve_device
        device = resolve_device("auto")
        print(json.dumps([device.kind, device.note]))
    """
    kind, note = run("\n".join(line.strip() for line in code.splitlines()))
    assert kind == ("cuda" if torch.cuda.is_available() else "cpu")
    assert "npu:0 is not usable: torch_npu does not find libhccl.so" in note


@pytest.mark.parametrize("package", ["model", "runtime", "training"])
def test_a_broken_torch_npu_does_not_keep_any_part_from_importing_torch(
    package, python_path, monkeypatch
):
    monkeypatch.delenv("TORCH_DEVICE_BACKEND_AUTOLOAD", raising=False)
    install_torch_npu(python_path, "raise ImportError('libhccl.so: cannot open shared object')")
    plain = [sys.executable, "-c", "import torch"]
    assert subprocess.run(plain, capture_output=True, check=False).returncode != 0
    names = [p.stem for p in (REPOSITORY / "xvla_ros" / package).glob("*.py")]
    modules = sorted(f"xvla_ros.{package}.{n}" for n in names if n not in ("__init__", "__main__"))
    code = f"import importlib, json\nfor m in {modules}: importlib.import_module(m)\n"
    assert run(code + "import sys; print(json.dumps('torch' in sys.modules))") is True


def test_without_torch_npu_the_package_to_install_is_named(python_path):
    assert f"pip install torch-npu=={RELEASE}" in refused("npu")


def test_a_missing_driver_library_is_told_from_missing_cann(python_path):
    error = "libascend_hal.so: cannot open shared object file: No such file or directory"
    install_torch_npu(python_path, f"raise ImportError({error!r})")
    text = refused("npu:1")
    assert "the Ascend driver's library is not found: ImportError: libascend_hal.so" in text


def test_a_torch_built_for_cuda_is_named(python_path):
    error = "Two accelerators cannot be used at the same time in PyTorch: npu and cuda."
    install_torch_npu(python_path, f"raise RuntimeError({error!r})")
    text = refused("npu")
    assert "is built for CUDA" in text
    assert f"install the CPU build of torch {RELEASE}" in text


def test_another_release_of_torch_npu_is_named_when_it_does_not_load(python_path):
    install_torch_npu(python_path, "raise ImportError('undefined symbol: _ZN2at')", "2.1.0")
    text = refused("npu")
    assert "torch_npu 2.1.0 was not built for torch" in text
    assert f"pip install torch-npu=={RELEASE}" in text


def test_numpy_2_is_suspected_when_the_card_does_not_start(python_path):
    broken = "\ndef fail(device): raise RuntimeError('error code is 500001')\nnpu.set_device = fail"
    install_torch_npu(python_path, working(extra=broken))
    install(python_path, "numpy", "2.1.0")
    text = refused("npu")
    assert "numpy is 2.1.0" in text
    assert "pip install numpy==1.26.4" in text
    assert "500001" in text


def test_a_card_that_does_not_start_shows_the_vendors_words(python_path):
    broken = (
        "\ndef fail(device): raise RuntimeError('507035:\\nvector core')\nnpu.set_device = fail"
    )
    install_torch_npu(python_path, working(extra=broken))
    assert "the card does not start: RuntimeError: 507035: vector core" in refused("npu")


@pytest.mark.skipif(any(Path("/dev").glob("davinci[0-9]*")), reason="this machine has NPUs")
def test_without_device_nodes_the_driver_or_the_container_is_to_blame(python_path):
    install_torch_npu(python_path, working(count=0))
    text = refused("npu")
    assert "there is no /dev/davinci*" in text
    assert "--device" in text


@pytest.mark.parametrize(
    ("visible", "told"),
    [
        ("", "names none"),
        ("1,0", "is not ascending (write 0,1)"),
        ("9", "names no existing card"),
    ],
)
def test_hidden_cards_are_blamed_on_the_variable_that_hides_them(
    visible, told, python_path, monkeypatch
):
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", visible)
    install_torch_npu(python_path, working(count=0))
    text = refused("npu")
    assert f"ASCEND_RT_VISIBLE_DEVICES={visible!r} {told}" in text


def test_a_card_beyond_the_last_is_refused_with_the_range(python_path):
    install_torch_npu(python_path, working(count=2))
    assert "only npu:0 to npu:1 are visible" in refused("npu:2")


def test_a_card_that_hangs_is_given_up(python_path):
    install_torch_npu(python_path, "import time\ntime.sleep(60)")
    assert "no answer within 4 s" in refused("npu", timeout=4.0)


def test_a_crash_of_the_driver_is_survived(python_path):
    install_torch_npu(python_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert "the process ended with -11" in refused("npu")


def test_a_working_card_is_chosen_and_driven_through_its_own_calls(python_path):
    install_torch_npu(python_path, working(count=2))
    code = """
import json, threading
from xvla_ros.runtime.device import resolve_device
device = resolve_device("NPU:1")
thread = threading.Thread(target=device.activate)
thread.start(); thread.join()
device.synchronize(); device.empty_cache()
import torch_npu
memory = device.memory()
print(json.dumps([device.name, str(device.torch_device), device.model, device.describe(),
    torch_npu.calls, [memory.allocated, memory.reserved, memory.free, memory.total]]))
"""
    name, torch_device, model, text, calls, memory = run(code)
    assert (name, torch_device, model) == ("npu:1", "npu:1", "Ascend910B3 #1")
    assert f"torch_npu {RELEASE}" in text
    assert calls == [
        ["set_device", "npu:1"],
        ["jit_compile", False],
        ["synchronize", "npu:1"],
        ["empty_cache"],
    ]
    assert memory == [2, 3, 60, 64]


def test_a_doubtful_pairing_works_with_a_warning(python_path):
    install_torch_npu(python_path, working(version="2.1.0"), "2.1.0")
    code = (
        "import json\nfrom xvla_ros.runtime.device import resolve_device\n"
        "print(json.dumps(resolve_device('npu').note))"
    )
    assert "torch_npu 2.1.0 was not built for torch" in run(code)


def test_auto_prefers_a_working_card(python_path):
    install_torch_npu(python_path, working())
    code = (
        "import json\nfrom xvla_ros.runtime.device import resolve_device\n"
        "print(json.dumps(resolve_device('auto').name))"
    )
    assert run(code) == "npu:0"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_auto_says_that_it_took_the_cpu_and_why():
    device = resolve_device("auto")
    assert device.kind == "cpu"
    assert device.note.startswith("auto chose the CPU: ")
    assert "cuda:0 is not usable" in device.note
    assert device.note in device.describe()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_is_never_replaced_by_the_cpu():
    text = refused("cuda:1")
    assert "CPU build" in text or "no GPU is visible" in text


@pytest.mark.parametrize(
    ("spec", "hint"), [("gpu", "cuda:0"), ("ascend0", "npu:0"), ("npu:x", "npu:0"), ("tpu", None)]
)
def test_an_unknown_device_is_refused_with_what_may_be_meant(spec, hint):
    with pytest.raises(DeviceError, match=r"is none of npu\[:i\], cuda\[:i\], cpu, auto") as error:
        resolve_device(spec)
    assert ("did you mean" in str(error.value)) is (hint is not None)
    if hint:
        assert f"did you mean {hint}?" in str(error.value)


@pytest.fixture(params=["cpu", "cuda"])
def device(request) -> Device:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA GPU on this machine")
    return resolve_device(request.param)


def test_every_device_computes_and_waits(device):
    device.activate()
    total = torch.ones(4, device=device.torch_device).sum()
    device.synchronize()
    device.empty_cache()
    assert total.item() == 4.0
    assert device.torch_device.type == device.kind
    assert f"torch {torch.__version__}" in device.describe()
    assert (device.memory() is None) is (device.kind == "cpu")
