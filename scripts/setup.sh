#!/usr/bin/env bash
# Installs what Sullae builds and runs with, from Debian's packages, and Arrow C++, of which Debian has none, from PyPI's wheel into
# build/arrow. The only place that installs anything.
#
#   scripts/setup.sh           for building and running
#   scripts/setup.sh parquet   Arrow C++, too; without it Parquet files are not read
#   scripts/setup.sh test      what the tests use, too
#   scripts/setup.sh cluster   Slurm, for `sullae cluster up`
#   scripts/setup.sh python    what the Python package is built with, too; python-debian: and Debian's PyTorch
#   scripts/setup.sh bench     the peers that the benchmarks run against, too
#   scripts/setup.sh horovod   Horovod in build/horovod, with Debian's PyTorch, for bench/beside_horovod.py
#   scripts/setup.sh fuzz      clang and its fuzzer, too
#   scripts/setup.sh lint      clang-format and clang-tidy, too
#   scripts/setup.sh docs      doxygen, too
#   scripts/setup.sh spark     Java, for make spark
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  build-essential cmake ninja-build ccache pkg-config
  libtorch-dev
  # libtorch takes whichever BLAS is installed, and the reference BLAS is several times slower than this one.
  libopenblas0-pthread
  libucx-dev libopenmpi-dev openmpi-bin
  libfmt-dev nlohmann-json3-dev libcli11-dev zlib1g-dev
  libjpeg62-turbo-dev libisal-dev libprotobuf-dev protobuf-compiler libtomlplusplus-dev libzmq3-dev cppzmq-dev
  libboost-dev libgrpc++-dev protobuf-compiler-grpc libssl-dev libsqlite3-dev libcurl4-openssl-dev librdkafka-dev curl python3
  libgtest-dev
)
if [[ "${1:-}" == test ]]; then
  # The tests join hosts made of network namespaces, look at the server's page in a browser, and make certificates.
  packages+=(iproute2 chromium-driver openssl)
fi
if [[ "${1:-}" == cluster || "${1:-}" == test ]]; then
  packages+=(slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins)
fi
if [[ "${1:-}" == python* ]]; then
  packages+=(python3-dev python3-venv)
fi
if [[ "${1:-}" == python-debian ]]; then
  packages+=(python3-torch pybind11-dev)
fi
if [[ "${1:-}" == bench ]]; then
  packages+=(libgloo-dev python3-torch python3-torchvision python3-flask gunicorn nginx-light wrk)
fi
if [[ "${1:-}" == horovod ]]; then
  packages+=(python3-torch python3-dev python3-venv)
fi
if [[ "${1:-}" == fuzz ]]; then
  packages+=(clang-14 libclang-rt-14-dev)
fi
if [[ "${1:-}" == lint ]]; then
  packages+=(clang-format clang-tidy)
fi
if [[ "${1:-}" == spark ]]; then
  packages+=(openjdk-17-jre-headless python3-venv)
fi
arrow=''
if [[ "${1:-}" =~ ^(parquet|test|bench|fuzz|lint)$ ]] && ! pkg-config --exists parquet 2>/dev/null; then
  arrow=26.0.1
  packages+=(python3-pip)
fi
if [[ "${1:-}" == docs ]]; then
  packages+=(doxygen)
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ "$state" == installed ]] || missing+=("$package")
done
if ((${#missing[@]} > 0)); then
  sudo=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || { echo "setup: run this as root, or install sudo" >&2; exit 1; }
    sudo=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  "${sudo[@]}" apt-get -qq update
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
fi

if [[ -n "$arrow" && ! -d build/arrow/pyarrow-$arrow.dist-info ]]; then
  echo "setup: installing pyarrow $arrow into build/arrow"
  rm -rf build/arrow build/arrow.new
  if /usr/bin/python3 -m pip -q --disable-pip-version-check install --root-user-action=ignore --no-deps --only-binary :all: \
    --target build/arrow.new "pyarrow==$arrow"; then
    mv build/arrow.new build/arrow
  elif [[ "$1" == parquet ]]; then
    echo "setup: without Arrow C++ Parquet files will not be read" >&2
  else
    exit 1
  fi
fi

if [[ "${1:-}" == horovod && ! -x build/horovod/bin/horovodrun ]]; then
  echo "setup: building Horovod in build/horovod"
  /usr/bin/python3 -m venv --system-site-packages build/horovod
  build/horovod/bin/pip -q install 'setuptools<70' wheel cloudpickle psutil pyyaml packaging
  HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1 \
    build/horovod/bin/pip -q install --no-build-isolation --no-deps horovod==0.28.1
fi
