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
# Each of its programs finds its libraries; as in the build they do so by themselves, it is looked at where they are looked for.
for command in run train serve; do "$work/installed/bin/sullae" "$command" --help >/dev/null; done
for program in "$work"/installed/bin/sullae "$work"/installed/libexec/sullae/*; do
  origin=$(dirname "$program")
  paths=$(readelf -d "$program" | sed -n 's/.*R.*PATH.*\[\(.*\)\]/\1/p')
  [[ ":${paths//\$ORIGIN/$origin}:" == *":$origin"/*lib*/sullae:* ]]
  realpath -- $(tr : '\n' <<<"${paths//\$ORIGIN/$origin}") | grep -q "^$work/installed/lib.*/sullae$"
done
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
