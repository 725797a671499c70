#!/usr/bin/env bash
# Has Spark (PyPI's, local) write what Sullae reads, and read what Sullae writes, and runs the example in examples/spark.
#
#   scripts/spark.sh SULLAE [DATA]     the `sullae` program; a folder with nsmc's ratings_train.txt and ratings_test.txt
set -euo pipefail
cd "$(dirname "$0")/.."
sullae=$(realpath "${1:?usage: $0 SULLAE [DATA]}")
data=${2:-../shared/data/nsmc}
scripts/setup.sh spark
if [[ ! -x build/spark/bin/spark-submit ]]; then
  /usr/bin/python3 -m venv build/spark
  build/spark/bin/pip install -q "pyspark==${SPARK_VERSION:-3.5.3}"
fi
export PYSPARK_PYTHON=$PWD/build/spark/bin/python
submit() {
  build/spark/bin/spark-submit --master 'local[2]' --conf spark.ui.enabled=false --conf spark.log.level=ERROR "$@"
}

submit tests/spark/round_trip.py "$sullae"
if [[ -f "$data/ratings_train.txt" || -f "$data/ratings_train.txt.gz" ]]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  submit examples/spark/reviews.py --sullae "$sullae" --data "$data" --work "$folder"
fi
