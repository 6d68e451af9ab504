#!/usr/bin/env bash
# Says in one line what this machine lacks for `make`; installs it where that is allowed.
# Usage: preflight.sh PYTHON VENV
set -euo pipefail

python=$1
venv=$2

fail() {
  echo "xvla_ros: $*" >&2
  exit 1
}

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
  fail "ROS 2 wheels exist for x86_64 Linux only, this is $(uname -s) $(uname -m); install ROS 2" \
    "Jazzy and build with colcon (docs/installation.md)"

[ ! -x "$venv/bin/python" ] || python=$venv/bin/python
command -v "$python" >/dev/null ||
  fail "no '$python' here; name an interpreter: make PYTHON=/path/to/python3.11"

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
case $version in
3.10 | 3.11 | 3.12) ;;
*) fail "$python is Python $version; needed is 3.10, 3.11 or 3.12: make PYTHON=python3.12" ;;
esac

packages=()
command -v cmake >/dev/null || packages+=(cmake)
command -v g++ >/dev/null || packages+=(g++)
"$python" -c '
import ctypes
for name in ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"):
    try:
        ctypes.CDLL(name)
        break
    except OSError:
        pass
else:
    raise SystemExit(1)
' || packages+=(libosmesa6)
"$python" -c 'import os, sysconfig
raise SystemExit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
  packages+=("python$version-dev")
"$python" -c 'import ensurepip, venv' 2>/dev/null || [ -x "$venv/bin/python" ] ||
  packages+=("python$version-venv")

[ ${#packages[@]} -gt 0 ] || exit 0
command -v apt-get >/dev/null ||
  fail "missing (Debian's names): ${packages[*]}; install them and run make again"
[ "$(id -u)" = 0 ] ||
  fail "missing system packages; paste: sudo apt-get install -y ${packages[*]}"
echo "Installing system packages: ${packages[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
{ apt-get update && apt-get install -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1 ||
  { tail -n 15 "$log" >&2; fail "apt-get could not install ${packages[*]} (log: $log)"; }
rm -f "$log"
