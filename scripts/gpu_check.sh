#!/usr/bin/env bash
# Checks on an NVIDIA GPU what wants one: NCCL, buckets and 16 bits on the device, SyncBatchNorm, training, serving; then measures it
# against plain PyTorch. The GPU's machine needs a Python with a CUDA torch, and neither packages nor a network: what runs there is
# built elsewhere. (With Debian's packages on it, `make test TORCH=pip` there does the same and more.)
#
#   scripts/gpu_check.sh pack    on Debian 12: builds against the torch of PYTHON (python3), a CUDA build of the version of the GPU's
#                                machine, with PyPI's nvidia-cuda-nvcc, -crt, -cccl and nvidia-nvvm; packs programs, tests and the
#                                libraries that they need into build/gpu-carry
#   scripts/gpu_check.sh         on the GPU's machine, with build/gpu-carry carried there
#
# PARTS="tests torch train python bench" runs some of it, TRAIN=FILTER some of the tests of training, within TRAIN_SECONDS; OUT=FOLDER takes
# the logs, BENCH=OPTIONS go to bench/gpu.py, PYTEST=OPTIONS pick tests of Python. "python" builds the package there, with nvcc, CMake, ninja, scikit-build-core and pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
carry=$PWD/build/gpu-carry
tree=$PWD/build/gpu
python=${PYTHON:-python3}
tests=(collective_test torch_test train_test serve_test predict_test)
site() { "$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))'; }

# One folder that looks like a CUDA toolkit: nvcc's own and what pip's torch brings, whose libraries have no names to link by.
toolkit() {
  local view=$tree-cuda own folder file
  own=$(PATH="$PATH:$(site)/nvidia/cu13/bin" nvcc -v -x cu /dev/null --dryrun 2>&1 | sed -n 's/^#\$ _HERE_=//p')
  own=${own%/bin}
  rm -rf "$view"
  mkdir -p "$view/bin" "$view/include" "$view/lib64"
  cp -rs "$own/bin/." "$view/bin/"
  if [[ -d "$own/nvvm" ]]; then ln -s "$own/nvvm" "$view/nvvm"; fi
  for folder in "$own/include" "$own"/targets/*/include "$(site)"/nvidia/*/include; do
    if [[ -d "$folder" ]]; then cp -rsn "$(readlink -f "$folder")/." "$view/include/"; fi
  done
  for file in "$own"/lib64/* "$own"/lib/* "$own"/targets/*/lib/* "$(site)"/nvidia/*/lib/*; do
    if [[ -f "$file" && ! -e "$view/lib64/$(basename "$file")" ]]; then ln -sf "$(readlink -f "$file")" "$view/lib64/"; fi
  done
  for file in "$view"/lib64/*.so.*; do
    if [[ ! -e "${file%%.so.*}.so" ]]; then ln -sf "$file" "${file%%.so.*}.so"; fi
  done
  echo "$view"
}

# What CMake is told of it.
toolkit_options() {
  printf -- '-D%s\n' "CUDAToolkit_ROOT=$1" "CUDA_TOOLKIT_ROOT_DIR=$1" "CMAKE_CUDA_COMPILER=$1/bin/nvcc" "NCCL_INCLUDE_DIR=$1/include" \
    "NCCL_LIBRARY=$1/lib64/libnccl.so" SULLAE_WITH_NCCL=ON
}

pack() {
  scripts/setup.sh test
  dpkg-query -W wrk >/dev/null 2>&1 || scripts/setup.sh bench
  local cuda prefix program file
  mapfile -t cuda < <(toolkit_options "$(toolkit)")
  prefix=$("$python" -c 'import torch; assert torch.version.cuda, "a torch without CUDA"; print(torch.utils.cmake_prefix_path)')
  # What is found beside the programs is found by the libraries that they need, too: RPATH, and not RUNPATH.
  cmake -G Ninja -S . -B "$tree" -D CMAKE_BUILD_TYPE=Release -D CMAKE_PREFIX_PATH="$prefix" "${cuda[@]}" -D SULLAE_WITH_PARQUET=ON \
    -D "CMAKE_BUILD_RPATH=\$ORIGIN/../lib" -D CMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags
  cmake --build "$tree" --target "${tests[@]}" programs bench_gpu_step
  rm -rf "$carry"
  mkdir -p "$carry/bin" "$carry/lib"
  pwd > "$carry/root"
  for program in "$tree"/bin/*; do
    if [[ -x "$program" && -f "$program" ]]; then strip -o "$carry/bin/$(basename "$program")" "$program"; fi
  done
  cp "$(command -v wrk)" "$carry/bin/"
  # The system's libraries but for those of glibc and GCC, which the other machine has in its own versions.
  for program in "$carry"/bin/*; do ldd "$tree/bin/$(basename "$program")" 2>/dev/null || ldd "$program"; done |
    awk '$3 ~ "^(/usr)?/lib/" || $3 ~ "/build/arrow/" {print $3}' | sort -u |
    grep -vE '/(lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s|gomp)\.so|ld-linux)' |
    while read -r file; do strip -o "$carry/lib/$(basename "$file")" "$file"; done
  # What the Python package, which is built there, includes and links.
  for file in libfmt-dev libfmt9 nlohmann-json3-dev libcli11-dev libtomlplusplus-dev zlib1g-dev; do dpkg -L "$file"; done |
    grep -E '^/usr/(include|lib|share/(cmake|nlohmann))' | grep -vE '\.a$' | sort -u |
    while read -r file; do if [[ ! -d "$file" ]]; then echo "${file#/}"; fi; done > "$carry.list"
  mkdir -p "$carry/wheel"
  tar -C / -chf - -T "$carry.list" | tar -C "$carry/wheel" -xf -
  rm "$carry.list"
  tar -C "$carry" -cf - . | xz -T0 > "$carry.tar.xz"
  rm -rf "$carry"
  mkdir -p "$carry"
  mv "$carry.tar.xz" "$carry/packed.tar.xz"
  du -h "$carry/packed.tar.xz"
}

# Where what was packed looks for itself, with the libraries of this machine's torch beside it.
unpack() {
  local root file
  mkdir -p "$tree"
  "$python" -c 'import sys; print(sys.version)'
  "$python" -m tarfile -e "$carry/packed.tar.xz" "$tree"
  root=$(cat "$tree/root")
  if [[ ! -e "$root" ]]; then
    mkdir -p "$(dirname "$root")"
    ln -s "$PWD" "$root"
  fi
  # libmpi looks for its own nowhere else.
  mkdir -p "$tree/lib/mpi"
  for file in "$tree"/lib/lib{open-,hwloc,event}*; do ln -sfn "$file" "$tree/lib/mpi/"; done
  for file in "$(site)"/torch/lib/*.so* "$(site)"/nvidia/*/lib/*.so*; do ln -sfn "$file" "$tree/lib/"; done
}

out=${OUT:-$tree/out}
failed=()

# run NAME SECONDS COMMAND…: its output in a file, its end here.
run() {
  local name=$1 seconds=$2 start=$SECONDS status=0
  shift 2
  timeout "$seconds" "$@" >"$out/$name.log" 2>&1 || status=$?
  if ((status != 0)); then failed+=("$name"); fi
  echo "== $name: $status, $((SECONDS - start)) s"
  grep -E '^\[ +(FAILED|SKIPPED) +\]|Failure$|NO GPU' "$out/$name.log" | sort -u | head -40 || true
}

# A program of tests, eight parts at a time.
run_tests() {
  local name=$1 seconds=$2 filter=$3 part parts=()
  for part in 0 1 2 3 4 5 6 7; do
    GTEST_TOTAL_SHARDS=8 GTEST_SHARD_INDEX=$part timeout "$seconds" "$tree/bin/$name" --gtest_brief=1 --gtest_filter="$filter" \
      >"$out/$name.$part.log" 2>&1 || echo "exit code $? of part $part" >>"$out/$name.$part.log" &
    parts+=($!)
  done
  wait "${parts[@]}"
  cat "$out/$name".?.log >"$out/$name.log"
  rm "$out/$name".?.log
  if grep -q '^exit code' "$out/$name.log"; then failed+=("$name"); fi
  echo "== $name"
  grep -E '^\[ +(FAILED|PASSED|SKIPPED) +\]|^exit code|NO GPU' "$out/$name.log" | sort | uniq -c | sort -rn | head -60 || true
}

# The Python package with this machine's torch, in a folder of its own.
build_python() {
  local wheel=$tree/wheel/usr
  export CPLUS_INCLUDE_PATH=$wheel/include LIBRARY_PATH=$wheel/lib/x86_64-linux-gnu CMAKE_BUILD_PARALLEL_LEVEL=12
  CMAKE_ARGS="-DCMAKE_PREFIX_PATH=$wheel $(toolkit_options "$(toolkit)" | tr '\n' ' ')"
  export CMAKE_ARGS
  "$python" -m pip install -q --no-index --no-deps --no-build-isolation --target "$tree/site" .
}
test_python() {
  export SULLAE_SERVER=$tree/bin/sullae PYTHONPATH=$tree/site PATH=$tree/site/bin:$PATH LD_LIBRARY_PATH=$tree/wheel/usr/lib/x86_64-linux-gnu:$tree/lib/mpi
  sullae --version
  cd python/tests
  read -ra tests <<<"${PYTEST:-test_gpu.py test_optimizer.py test_collectives.py}"
  "$python" -m pytest -q -p no:cacheprovider --durations=8 "${tests[@]}"
}

check() {
  mkdir -p "$out"
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
  if [[ -f "$carry/packed.tar.xz" ]]; then unpack; fi
  export LD_LIBRARY_PATH=$tree/lib/mpi
  "$tree/bin/sullae" --version
  local part parts=${PARTS:-tests torch train python bench}
  if [[ " $parts " == *" python "* ]]; then build_python >"$out/build_python.log" 2>&1 & fi
  local building=${!:-}
  for part in $parts; do
    case $part in
      tests)
        run nccl 60 "$tree/bin/collective_test" --gtest_filter='*Nccl*'
        run devices 90 "$tree/bin/torch_test" --gtest_filter='Device*:Checkpoint*:AdamLike*'
        run serve 60 "$tree/bin/serve_test" --gtest_filter='ModelTest.*'
        ;;
      torch) run_tests torch_test 200 '*' ;;
      train) run_tests train_test "${TRAIN_SECONDS:-400}" "${TRAIN:-*}" ;;
      python)
        wait "$building" || { failed+=(build_python); tail -30 "$out/build_python.log"; continue; }
        test_python >"$out/python.log" 2>&1 &
        wait $! || failed+=(python)
        grep -E '^(FAILED|ERROR|E  )|passed|failed|^with|^sullae' "$out/python.log" | head -60 || true
        ;;
      bench)
        read -ra options <<<"${BENCH:-}"
        run bench 300 env PATH="$tree/bin:$PATH" "$python" bench/gpu.py --build "$tree" "${options[@]}"
        cat "$out/bench.log"
        ;;
      *) echo "gpu_check: no part '$part': tests, torch, train, python, bench" >&2; exit 2 ;;
    esac
  done
  if ((${#failed[@]} > 0)); then echo "failed: ${failed[*]}"; exit 1; fi
}

case ${1:-check} in
  pack) pack ;;
  check) check ;;
  *) echo "usage: scripts/gpu_check.sh [pack|check]" >&2; exit 2 ;;
esac
