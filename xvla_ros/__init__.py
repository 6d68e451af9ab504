"""X-VLA policies in a closed loop on a WidowX 250S, through ROS 2.

The package has two halves under one name: this source and the message classes that rosidl
generates (``xvla_ros.msg``, ``.srv``, ``.action``). In an installation both lie in one folder; run
from a source folder they do not, so the search path takes in every ``xvla_ros`` on ``sys.path``.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
__version__ = "0.1.0"
