"""The X-VLA network as plain torch, sized by its checkpoint's config."""

import os

# A torch_npu without its libraries would break `import torch`; see xvla_ros.runtime.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
