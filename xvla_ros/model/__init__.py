"""The X-VLA network in plain torch, with its checkpoints, preprocessing and domains."""

import os

# A torch_npu without its libraries would break `import torch` itself, see `xvla_ros.runtime`.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
