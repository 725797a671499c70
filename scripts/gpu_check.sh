#!/usr/bin/env bash
# Builds Sullae on a machine with an NVIDIA GPU, a CUDA torch that python3 imports, nvcc, CMake and ninja, and checks what wants a GPU: NCCL,
# buckets and 16 bits on the device, SyncBatchNorm, serving; then measures it against plain PyTorch. Nothing is installed there, and no
# network is needed.
#
#   scripts/gpu_check.sh pack    on a Debian 12 machine that has built Sullae: what else is needed (headers and libraries of Debian's
#                                packages) into build/gpu/carry/packages.tar.gz
#   scripts/gpu_check.sh         on the GPU's machine, with build/gpu/carry carried there; without, with what is installed
#   scripts/gpu_check.sh build   builds alone, for machines without a GPU (PYTHON=… whose torch is a CUDA build)
set -euo pipefail
cd "$(dirname "$0")/.."
carried=build/gpu/carry/packages.tar.gz
packages=build/gpu/packages
tree=build/gpu/build

# Of Boost and gRPC, which are large, the headers that the release build has read; of the others all.
pack() {
  scripts/setup.sh test
  dpkg-query -W wrk >/dev/null 2>&1 || scripts/setup.sh bench
  [[ -f build/release/.ninja_deps ]] || { echo "gpu_check: \`make test\` first: build/release says which headers are needed" >&2; exit 1; }
  mkdir -p "$(dirname "$carried")"
  {
    ninja -C build/release -t deps | sed -n 's/^ *//p' | grep -E '^/usr/include/.*(boost|grpc|google|absl|fmt|nlohmann|CLI|toml|gtest|gmock|isa-l|openssl)' | sort -u
    for package in libfmt-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev zlib1g-dev libjpeg62-turbo-dev libjpeg62-turbo libisal-dev \
                   libisal2 libsqlite3-dev libsqlite3-0 libgtest-dev libssl3 protobuf-compiler protobuf-compiler-grpc libprotoc32 libprotobuf32 \
                   libgrpc29 libgrpc++1.51 libabsl20220623 libc-ares2 libre2-9 wrk libluajit-5.1-2; do
      dpkg -L "$package"
    done
    for package in libprotobuf-dev libgrpc-dev libgrpc++-dev libabsl-dev libc-ares-dev libre2-dev libssl-dev libboost1.74-dev; do
      dpkg -L "$package" | grep -E '/(cmake|pkgconfig)/|\.so$|ares.*\.h$|/re2/|/openssl/' || true
    done
  } | grep -vE '^/usr/share/(doc|man|lintian|bug)|/lib(grpc|grpc\+\+)_unsecure|libasan|\.a$' | sort -u > build/gpu/list
  grep -E '/lib(gtest|gtest_main|gmock|gmock_main)\.a$' <(dpkg -L libgtest-dev) >> build/gpu/list
  # What has gone into alternatives' links is not a file of any package.
  sed 's,^/,,' build/gpu/list | while read -r file; do if [[ -e "/$file" && ! -d "/$file" ]]; then echo "$file"; fi; done |
    tar -C / -czf "$carried" -T -
  du -h "$carried"
}

# One folder that looks like a CUDA toolkit: nvcc's own and what pip's torch brings, whose libraries have no names to link by.
toolkit() {
  local view=$PWD/build/gpu/cuda site own folder file
  site=$("$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))')
  own=$(nvcc -v -x cu /dev/null --dryrun 2>&1 | sed -n 's/^#\$ _HERE_=//p')
  own=${own%/bin}
  rm -rf "$view"
  mkdir -p "$view/bin" "$view/include" "$view/lib64"
  cp -rs "$own/bin/." "$view/bin/"
  if [[ -d "$own/nvvm" ]]; then ln -s "$own/nvvm" "$view/nvvm"; fi
  for folder in "$own/include" "$own"/targets/*/include "$site"/nvidia/*/include; do
    if [[ -d "$folder" ]]; then cp -rsn "$(readlink -f "$folder")/." "$view/include/"; fi
  done
  for folder in "$own/lib64" "$own"/targets/*/lib "$site"/nvidia/*/lib; do
    for file in "$folder"/*; do
      if [[ -f "$file" && ! -e "$view/lib64/$(basename "$file")" ]]; then ln -s "$(readlink -f "$file")" "$view/lib64/"; fi
    done
  done
  for file in "$view"/lib64/*.so.*; do
    if [[ ! -e "${file%%.so.*}.so" ]]; then ln -s "$file" "${file%%.so.*}.so"; fi
  done
  echo "$view"
}

build() {
  local cuda
  cuda=$(toolkit)
  if [[ -f "$carried" ]]; then
    mkdir -p "$packages"
    tar -C "$packages" -xzf "$carried"
    export CMAKE_PREFIX_PATH=$PWD/$packages/usr CPLUS_INCLUDE_PATH=$PWD/$packages/usr/include:$PWD/$packages/usr/include/x86_64-linux-gnu
    export LIBRARY_PATH=$PWD/$packages/usr/lib/x86_64-linux-gnu LD_LIBRARY_PATH=$PWD/$packages/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export PKG_CONFIG_PATH=$PWD/$packages/usr/lib/x86_64-linux-gnu/pkgconfig PATH=$PATH:$PWD/$packages/usr/bin
  fi
  local prefix
  prefix=$("$python" -c 'import torch; assert torch.version.cuda, "a torch without CUDA"; print(torch.utils.cmake_prefix_path)')
  # UCX and MPI are not carried: one machine needs neither.
  cmake -G Ninja -S . -B "$tree" -D CMAKE_BUILD_TYPE=Release -D CMAKE_PREFIX_PATH="$prefix;${CMAKE_PREFIX_PATH:-}" \
    -D CUDAToolkit_ROOT="$cuda" -D CUDA_TOOLKIT_ROOT_DIR="$cuda" -D CMAKE_CUDA_COMPILER="$cuda/bin/nvcc" \
    -D SULLAE_WITH_NCCL=ON -D SULLAE_WITH_SERVING=ON
  cmake --build "$tree" --target torch_test collective_test serve_test programs bench_gpu_step
  "$tree/bin/sullae" --version
}

python=${PYTHON:-python3}
case ${1:-check} in
  pack) pack ;;
  build) build ;;
  check)
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    build
    failed=0
    "$tree/bin/collective_test" --gtest_filter='*Nccl*' || failed=1
    "$tree/bin/torch_test" || failed=1
    "$tree/bin/serve_test" --gtest_filter='ModelTest.*' || failed=1
    bench/gpu.py --build "$tree" || failed=1
    exit $failed
    ;;
  *) echo "usage: scripts/gpu_check.sh [pack|build|check]" >&2; exit 2 ;;
esac
