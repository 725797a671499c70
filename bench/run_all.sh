#!/usr/bin/env bash
# Every benchmark, against its peers. Two hosts are network namespaces, and need root.
set -euo pipefail
cd "$(dirname "$0")/.."
bench/allreduce.py --ranks 2 4 --rounds 3
bench/messages.py
if ((EUID == 0)); then
  sizes=(4 1024 16384 65536 262144 1048576 4194304 16777216 67108864)
  bench/allreduce.py --hosts --rounds 3 --sizes "${sizes[@]}"
  bench/allreduce.py --hosts --rate 1gbit --rounds 1 --sizes 1048576 4194304 16777216 67108864
  bench/overlap.py --rounds 3 --rate 1gbit
else
  echo "SKIPPED: two hosts (network namespaces need root)"
fi
bench/gradients.py --ranks 2 4 --rounds 3
bench/wrapper.py
bench/training.py --ranks 2 --rounds 3
bench/overlap.py --rounds 3
bench/pipeline.py
if [[ -n "${SULLAE_SERVED:-}" ]]; then
  bench/serving.py "$SULLAE_SERVED"
  bench/serving_changes.py "$SULLAE_SERVED"
else
  echo "SKIPPED: serving (SULLAE_SERVED names no model.ckpt; \`sullae train nsmc --export DIR\` writes one)"
fi
