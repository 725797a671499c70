#!/usr/bin/env bash
# Builds Sullae without the parts that can be left out (preset "least": a compiler, CMake, libtorch, fmt, zlib and header-only
# libraries), trains with it, and asks it for what it lacks.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
cmake --preset least
cmake --build --preset least --target programs
sullae=$PWD/build/least/bin/sullae
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# expect TEXT COMMAND…: the command fails, and says TEXT.
expect() {
  local text=$1
  shift
  if "$@" >"$folder/said" 2>&1; then
    echo "least: $* succeeded, expected it to fail with: $text" >&2
    exit 1
  fi
  if ! grep -qF -- "$text" "$folder/said"; then
    cat "$folder/said" >&2
    echo "least: $* was expected to say: $text" >&2
    exit 1
  fi
}

"$sullae" --version | tee "$folder/version"
grep -q '; without UCX, MPI, NCCL, JPEG, TFRECORD, PARQUET, STORAGE, KAFKA, PS, HTTP, SERVING$' "$folder/version"
for program in sullae sullae-train; do
  if ldd "build/least/bin/$program" | grep -E 'lib(ucp|ucs|mpi|jpeg|isal|protobuf|arrow|parquet|curl|zmq|grpc|sqlite3|ssl)\b' |
    grep -vF "$(ldd "$(ldd build/least/bin/sullae-train | awk '/libtorch_cpu/ {print $3}')" | awk '{print $1}')"; then
    echo "least: $program needs the library above" >&2
    exit 1
  fi
done

"$sullae" run -np 2 "$sullae" train mnist --data '' --max-steps 5
expect "sullae-serve: cannot be started" "$sullae" serve "$folder"
expect "this build of Sullae writes no event files" "$sullae" train mnist --data '' --max-steps 1 --tensorboard-dir "$folder/events"
printf '\x05\0\0\0\0\0\0\0\1\2\3\4hello\1\2\3\4' >"$folder/some.tfrecord"
expect "this build of Sullae has no TFRecord files" "$sullae" data inspect "$folder/some.tfrecord"
printf 'label,text\na,one and one\nb,two\n' >"$folder/texts.csv"
printf '{"label":"a","text":"one and one"}\n{"label":"b","text":"two"}\n' >"$folder/texts.jsonl"
for file in texts.csv texts.jsonl; do
  "$sullae" data inspect "$folder/$file" | grep -q '^samples   2$' || { echo "least: $file cannot be read" >&2; exit 1; }
done
printf 'PAR1' >"$folder/some.parquet"
expect "this build of Sullae has no Parquet and Arrow files" "$sullae" data inspect "$folder/some.parquet"
expect "this build of Sullae has no stores" "$sullae" data inspect s3://bucket/some.parquet
expect "this build of Sullae has no Kafka" "$sullae" data inspect kafka://localhost:9092/topic
mkdir -p "$folder/photographs/class"
printf '\xff\xd8\xff\xe0' >"$folder/photographs/class/one.jpg"
expect "this build of Sullae reads no JPEG files" "$sullae" data verify "$folder/photographs"
expect "expected one of auto, shm" env SULLAE_TRANSPORT=ucx "$sullae" run -np 2 "$sullae" train mnist --data '' --max-steps 1
expect "built without the dashboard" "$sullae" dashboard "$folder"
expect "built without parameter servers" "$sullae" ps --workers 1
expect "built without parameter servers" "$sullae" run --ps 1 -np 1 sleep 60
# shellcheck disable=SC2016
expect "no transport between hosts" "$sullae" run -np 2 \
  sh -c 'SULLAE_HOST_ID=$SULLAE_RANK exec "$0" train mnist --data "" --max-steps 1' "$sullae"
echo "least: it trains, and says what it lacks"
