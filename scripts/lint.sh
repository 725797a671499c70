#!/usr/bin/env bash
# Checks the format of all sources, and runs clang-tidy on those that do not include libtorch (its headers
# take minutes) or, with --all, on all.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files '*.h' '*.cc' | xargs clang-format --dry-run --Werror
folders='src/(base|transport|collective|engine|launch|data|cli)/'
[[ "${1:-}" == --all ]] && folders='src/'
git ls-files 'src/*.cc' | grep -E "$folders" | grep -v kernels_ |
  xargs -P "$(nproc)" -n 4 clang-tidy -p build/release --quiet --warnings-as-errors='*'
