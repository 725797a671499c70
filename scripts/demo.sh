#!/usr/bin/env bash
# Installs what is missing, builds what trains, trains the MNIST classifier with one rank and with two, on one processor
# each, compares them, and says where the time went.
#
#   scripts/demo.sh [--data DIR]
set -euo pipefail
cd "$(dirname "$0")/.."
sullae=build/release/bin/sullae

data=()
if [[ "${1:-}" == --data ]]; then
  [[ -n "${2:-}" ]] || { echo "demo: --data needs a folder" >&2; exit 2; }
  data=(--data "$2")
elif (($# > 0)); then
  echo "usage: $0 [--data DIR]" >&2
  exit 2
fi

took=()
phase=$SECONDS
# Ends a phase of this name.
lap() {
  took+=("$1 $((SECONDS - phase)) s")
  phase=$SECONDS
}

scripts/setup.sh
lap installing
cmake --preset release
cmake --build --preset release --target trainer
lap building

reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
for ranks in 1 2; do
  echo "$ sullae run -np $ranks --cpus-per-rank 1 sullae train mnist ${data[*]}"
  "$sullae" run -np "$ranks" --cpus-per-rank 1 "$sullae" train mnist "${data[@]}" --report "$reports/$ranks.json"
  echo
done
"$sullae" report "$reports/1.json" "$reports/2.json"
lap training
printf -v times '%s, ' "${took[@]}"
echo
echo "Time: ${times%, }."
