#!/usr/bin/env bash
# Installs Sullae, builds the example against the installed tree as a user would, and runs it with two ranks.
#
#   run_installed_example.sh BUILD_DIR EXAMPLE_DIR
set -euo pipefail
build=$1
example=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/installed" >/dev/null
# What only the server needs is not asked for.
cmake -S "$example" -B "$work/build" -D CMAKE_PREFIX_PATH="$work/installed" -D CMAKE_BUILD_TYPE=Release \
  -D CMAKE_DISABLE_FIND_PACKAGE_gRPC=ON -D CMAKE_DISABLE_FIND_PACKAGE_Boost=ON -D CMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON \
  -D CMAKE_DISABLE_FIND_PACKAGE_SQLite3=ON --no-warn-unused-cli >/dev/null
cmake --build "$work/build"
cd "$work"
"$work/installed/bin/sullae" run -np 2 "$work/build/train" | tee output
grep -q '^\[0\] epoch 3 ' output
test -s mnist.ckpt

lines=$(wc -l <"$example/main.cc")
if ((lines >= 120)); then
  echo "the example has $lines lines, and is to have fewer than 120" >&2
  exit 1
fi
if "$work/build/train" --data /no/such/folder 2>error; then
  echo "a missing data set must fail" >&2
  exit 1
fi
grep -q 'train: /no/such/folder/train-images-idx3-ubyte: there is no such file' error
