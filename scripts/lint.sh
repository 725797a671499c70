#!/usr/bin/env bash
# Checks the format of all sources and the names in them, and runs clang-tidy on those that do not include libtorch: clang 14 cannot parse
# libtorch 1.13 as C++20 (its IValue is incomplete where a constexpr vector of it is destroyed). GCC's warnings, which are
# errors, are on everywhere.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh test
scripts/setup.sh lint
cmake --preset lint >/dev/null
cmake --build --preset lint >/dev/null  # what is generated from .proto files
git ls-files '*.h' '*.cc' | xargs clang-format --dry-run --Werror
scripts/unity_names.py

# clang reads neither GCC's precompiled headers nor its newest warning flags.
sed -i -E 's/-(Winvalid-pch|fpch-preprocess)//g; s/-include [^ ]*cmake_pch\.hxx//g; s/-Wno-(restrict|subobject-linkage)//g; s/-Wno-maybe-uninitialized//g' \
  build/lint/compile_commands.json

scripts/tidy_sources.py build/lint/compile_commands.json |
  xargs -P "$(nproc)" -n 4 clang-tidy -p build/lint --quiet --warnings-as-errors='*'
