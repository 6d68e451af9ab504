"""How the demo checkpoint was made."""

import os

# A torch_npu without its libraries would break `import torch`; see xvla_ros.runtime.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
