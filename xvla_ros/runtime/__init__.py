"""Running a policy on a device.

A torch_npu without its libraries breaks `import torch` itself through torch's auto-loading of
back ends. It is therefore off in every process that imports this package, `model` or
`training`, and `device` imports torch_npu itself once a probe has shown that it works.
"""

import os

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
