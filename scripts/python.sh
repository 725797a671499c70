#!/usr/bin/env bash
# Makes a virtual environment under build/, installs the Python package into it, runs its tests and an example.
#
#   scripts/python.sh            with the torch of PyPI (TORCH_VERSION, 2.13.0)
#   scripts/python.sh debian     with Debian's python3-torch
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ "${1:-}" == debian ]]; then
  scripts/setup.sh python-debian
  environment=build/python-debian
  objects=(-C build-dir=build/python-debian-objects)
  /usr/bin/python3 -m venv --system-site-packages "$environment"
else
  scripts/setup.sh python
  environment=build/python
  objects=()
  "${PYTHON:-python3}" -m venv "$environment"
  "$environment/bin/pip" install -q "torch==${TORCH_VERSION:-2.13.0}" 'numpy>=1.24' 'keras>=3'
fi
"$environment/bin/pip" install -q scikit-build-core ninja pytest 'tritonclient[http,grpc]'
# Against the torch that is there, which a build of its own environment would not see installed; by the compiler's name by which
# `make test` calls it, so that ccache knows what is the same.
CXX=c++ "$environment/bin/pip" install -q --no-build-isolation --no-deps "${objects[@]}" \
  -C cmake.define.CMAKE_COMPILE_WARNING_AS_ERROR=ON .

export PATH="$PWD/$environment/bin:$PATH"
sullae --version
(cd python/tests && python -m pytest -q -p no:cacheprovider)

data=${DATA:-../shared/data/mnist}
if [[ -d "$data" ]]; then
  for ranks in 1 2; do
    echo "sullae run -np $ranks python examples/python/mnist.py --data $data --epochs 1"
    sullae run -np "$ranks" python examples/python/mnist.py --data "$data" --epochs 1
  done
fi
