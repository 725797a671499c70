#!/usr/bin/env bash
# Every benchmark, against its peers in the same run, or those parts that are named. What they find is written to docs/figures.json,
# and the pages are held against it; `bench/pages.py --write` brings them up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

usual=(allreduce messages sets engine hosts gradients wrapper training overlap scaling libtorch python horovod pipeline serving elastic cluster parquet kafka dashboard sharding units stages ps ps_hosts language)
long=(accuracy keras ps_tables)  # run where they are named

root_only() {
  ((EUID == 0)) || { echo "SKIPPED: $1 (two hosts are network namespaces, which need root)"; return 1; }
}

part() {
  case $1 in
    allreduce) bench/allreduce.py --ranks 2 4 --rounds 3 ;;
    messages) bench/messages.py ;;
    sets) bench/sets.py ;;
    engine) bench/engine.py ;;
    hosts)
      root_only hosts || return 0
      bench/allreduce.py --hosts --rounds 3 --sizes 4 1024 16384 65536 262144 1048576 4194304 16777216 67108864
      bench/allreduce.py --hosts --rate 1gbit --rounds 1 --sizes 1048576 4194304 16777216 67108864
      bench/overlap.py --rounds 3 --rate 1gbit
      ;;
    gradients) bench/gradients.py --ranks 2 4 --rounds 3 ;;
    wrapper) bench/wrapper.py ;;
    elastic)
      bench/elastic.py
      bench/elastic.py --state 400 --kills 10
      bench/elastic_losses.py torture
      root_only elastic_losses || return 0
      bench/elastic_losses.py link
      ;;
    parquet) bench/parquet.py ;;
    kafka) bench/kafka.py ;;
    dashboard)
      # TensorBoard beside it where build/tensorboard has one: python3 -m venv build/tensorboard; build/tensorboard/bin/pip install tensorboard
      if [[ -x build/tensorboard/bin/python ]]; then
        build/tensorboard/bin/python bench/dashboard.py --tensorboard 200
      else
        bench/dashboard.py
      fi
      ;;
    sharding) bench/sharding.py ;;
    units) bench/units.py ;;
    ps) bench/ps.py ;;
    ps_tables) bench/ps_tables.py ;;
    ps_hosts)
      root_only ps_hosts || return 0
      bench/ps_hosts.py
      ;;
    stages) bench/stages.py ;;
    language)
      if [[ ! -x build/python/bin/sullae ]]; then
        echo "SKIPPED: language (\`make python\` makes build/python)"
        return 0
      fi
      bench/language.py
      ;;
    training) bench/training.py --ranks 2 --rounds 3 ;;
    overlap) bench/overlap.py --rounds 3 ;;
    scaling) bench/scaling.py ;;
    cluster)
      if ! PATH=$PATH:/usr/sbin command -v slurmctld >/dev/null; then
        echo "SKIPPED: cluster (scripts/setup.sh cluster installs Slurm)"
        return 0
      fi
      bench/cluster.py
      ;;
    libtorch)
      if [[ ! -x build/torch-pip/bin/sullae ]]; then
        echo "SKIPPED: libtorch (\`make build TORCH=pip\` makes the other one)"
        return 0
      fi
      bench/libtorch.py
      ;;
    python)
      if [[ ! -x build/python/bin/sullae ]]; then
        echo "SKIPPED: python (\`make python\` makes build/python)"
        return 0
      fi
      build/python/bin/python bench/python.py
      ;;
    horovod)
      if [[ ! -x build/horovod/bin/horovodrun || ! -x build/python-debian/bin/sullae ]]; then
        echo "SKIPPED: horovod (\`make python TORCH=debian\` and \`scripts/setup.sh horovod\`)"
        return 0
      fi
      bench/beside_horovod.py
      ;;
    keras)
      if [[ ! -x build/python/bin/sullae ]]; then
        echo "SKIPPED: keras (\`make python\` makes build/python)"
        return 0
      fi
      build/python/bin/python bench/keras.py
      ;;
    pipeline) bench/pipeline.py ;;
    serving)
      if [[ -z "${SULLAE_SERVED:-}" ]]; then
        echo "SKIPPED: serving (SULLAE_SERVED names no model.ckpt; \`sullae train nsmc --export DIR\` writes one)"
        return 0
      fi
      bench/serving.py "$SULLAE_SERVED"
      bench/serving_changes.py "$SULLAE_SERVED"
      ;;
    accuracy)
      bench/accuracy.py mnist --ranks 1 2 4 --seeds 1 2 3 -- --epochs 3
      bench/accuracy.py nsmc --peer
      bench/accuracy.py text --ranks 1 --seeds 1 2 3 -- --epochs 10
      ;;
    *)
      echo "bench/figures.sh: no part \"$1\", expected of: ${usual[*]} ${long[*]}" >&2
      exit 2
      ;;
  esac
}

export SULLAE_FIGURES=${SULLAE_FIGURES-docs/figures.json}
for name in "${@:-${usual[@]}}"; do part "$name"; done
bench/pages.py
