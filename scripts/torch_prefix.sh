#!/usr/bin/env bash
# Where CMake finds a libtorch that is not Debian's.
#
#   scripts/torch_prefix.sh pip      the torch that python3 (or $PYTHON) imports
#   scripts/torch_prefix.sh FOLDER   an unpacked archive of pytorch.org
set -euo pipefail
python=${PYTHON:-python3}

case "${1:?usage: $0 pip|FOLDER}" in
pip)
  command -v "$python" >/dev/null || { echo "TORCH=pip: there is no $python; say which with PYTHON=" >&2; exit 1; }
  if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "TORCH=pip: $(command -v "$python") has no torch that can be imported; expected one from: $python -m pip install torch" >&2
    exit 1
  fi
  "$python" -c 'import torch; print(torch.utils.cmake_prefix_path)'
  ;;
*)
  if [[ ! -f "$1/share/cmake/Torch/TorchConfig.cmake" ]]; then
    echo "TORCH=$1: expected pip, or a folder of libtorch with share/cmake/Torch/TorchConfig.cmake in it" >&2
    exit 1
  fi
  realpath "$1"
  ;;
esac
