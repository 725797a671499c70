#!/usr/bin/env bash
# Runs libFuzzer on every parser of data files and requests, with AddressSanitizer and UndefinedBehaviorSanitizer, and fails when one
# finds something.
#
#   scripts/fuzz.sh [SECONDS]     for each parser; 60 by default
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
scripts/setup.sh fuzz

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz

# Something to start from: the smallest files of each kind.
seeds=build/fuzz/seeds
mkdir -p "$seeds"/{config,csv,tsv,example,http,idx,infer,jpeg,jsonl,negotiator,parquet,store,tar,tfrecord,wire}
cat >"$seeds/config/all" <<'TOML'
max_batch_size = 4
max_queue_delay_microseconds = 1
device = "cuda:1"
instances = 2
version_policy = "1,3"
new_version_percent = 10
preprocessing = "image"
mean = [0.5, 1, 2e-1]
centre_share = 0.8
[[inputs]]
name = "x"
datatype = "FP32"
shape = [-1, 2]
[[golden]]
instance = { a = [1, "b", true], c = 1.5 }
expect = [1, 2]
tolerance = 0.1
[online]
data = "d"
replay = 4
TOML
printf '1,"a ""b"" c"\r\n2,d\n' >"$seeds/csv/quoted"
printf '{"text":"a","label":1,"x":[[1.5],2],"p":{"q":null}}\n{"text":null}\n' >"$seeds/jsonl/nested"
printf 'id\tdocument\tlabel\n1\ta "b"\t0\n' >"$seeds/tsv/header"
printf '\x11\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x01a\0\0\x08\x01\0\0\0\x01\x03' >"$seeds/idx/one"
printf '\x0a\x10\x0a\x0e\x0a\x04text\x12\x06\x0a\x04\x0a\x02ab' >"$seeds/example/text"
printf '\0\0{"id":"1","inputs":[{"name":"a","shape":[1,2],"datatype":"FP32","data":[[1,2]]}],"outputs":[{"name":"b"}]}' >"$seeds/infer/json"
printf '\x64\0{"inputs":[{"name":"a","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":  7}}]      }\3\0\0\0abc' >"$seeds/infer/binary"
cp "$seeds/example/text" "$seeds/tfrecord/text"
(cd "$seeds/example" && tar --format=pax -cf ../tar/pax text && tar --format=gnu -cf ../tar/gnu text)
base64 -d >"$seeds/jpeg/grey" <<'JPEG'
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBk
eFxlZ2P/wAALCAACAAIBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAABv/EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AX//Z
JPEG

printf '\377POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\na\r\n0\r\nT: u\r\n\r\nHEAD /refused HTTP/1.1\r\nHost: h\r\n\r\n' >"$seeds/http/chunked"
printf '\20POST http://h/b?c HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabcGET / HTTP/1.0\r\n\r\n' >"$seeds/http/length"
printf '\x0a\1m\x2a\x10\x0a\1a\x12\4FP32\x1a\1\1\x2a\0\x3a\4abcd' >"$seeds/wire/raw"
printf '\x0a\1m\x2a\x13\x0a\1a\x12\5INT64\x1a\1\2\x2a\4\x1a\2\1\2\x22\0' >"$seeds/wire/typed"
printf '\3\1\300\301\302\0\200\0\243\0' >"$seeds/negotiator/joins"
printf '\1\1\3\0\0\0\1\0\0\0kv' >"$seeds/store/set"

PYTHONPATH=build/arrow /usr/bin/python3 - "$seeds/parquet" <<'PYTHON'
import sys
import pyarrow as pa
import pyarrow.parquet
table = pa.table({"text": ["a", None, "c"], "label": [1, 2, 2], "x": [[1.5, 2.0], [], None], "s": [{"b": b"x", "n": 1}] * 3,
                  "d": pa.array(["p", "q", "p"]).dictionary_encode()})
for codec in ("none", "snappy", "gzip", "zstd"):
    for version in ("1.0", "2.0"):
        pa.parquet.write_table(table, f"{sys.argv[1]}/{codec}-{version}", compression=codec, data_page_version=version, row_group_size=2)
for name, writer in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
    with writer(f"{sys.argv[1]}/{name}", table.schema) as out:
        out.write_table(table)
PYTHON

for parser in config csv tsv example http idx infer jpeg jsonl negotiator parquet store tar tfrecord wire; do
  mkdir -p "build/fuzz/corpus/$parser"
  echo "fuzzing $parser for $seconds s"
  "build/fuzz/bin/${parser}_fuzzer" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/$parser-" "build/fuzz/corpus/$parser" "$seeds/$parser" >"build/fuzz/$parser.log" 2>&1 ||
    { tail -40 "build/fuzz/$parser.log"; echo "fuzz: $parser: see build/fuzz/$parser.log" >&2; exit 1; }
  grep -aE "number_of_executed_units|new_units_added" "build/fuzz/$parser.log"
done
echo "nothing was found"
