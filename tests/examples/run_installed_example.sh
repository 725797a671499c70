#!/usr/bin/env bash
# Installs Sullae, builds an example against the installed tree as a user would, and runs its checks.
#
#   run_installed_example.sh BUILD_DIR EXAMPLE_DIR CHECKS
#
# CHECKS is sourced in an empty folder, with `sullae` and the example's program `train` in PATH.
set -euo pipefail
build=$1
example=$2
checks=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/installed" >/dev/null
# What only the server needs is not asked for.
cmake -S "$example" -B "$work/build" -D CMAKE_PREFIX_PATH="$work/installed" -D CMAKE_BUILD_TYPE=Release \
  -D CMAKE_DISABLE_FIND_PACKAGE_gRPC=ON -D CMAKE_DISABLE_FIND_PACKAGE_Boost=ON \
  -D CMAKE_DISABLE_FIND_PACKAGE_SQLite3=ON --no-warn-unused-cli >/dev/null
cmake --build "$work/build"
mkdir "$work/run"
cd "$work/run"
PATH=$work/installed/bin:$work/build:$PATH
# shellcheck source=/dev/null
source "$checks"
