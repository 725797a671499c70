#!/usr/bin/env bash
# Checks the format of all sources and the names in them, and runs clang-tidy on those that do not include libtorch: clang 14 cannot parse
# libtorch 1.13 as C++20 (its IValue is incomplete where a constexpr vector of it is destroyed). GCC's warnings, which are
# errors, are on everywhere.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh test
scripts/setup.sh lint
cmake --preset lint >/dev/null
cmake --build --preset lint >/dev/null  # what is generated from .proto files
git ls-files '*.h' '*.cc' | xargs clang-format --dry-run --Werror
scripts/unity_names.py

# clang reads neither GCC's precompiled headers nor its newest warning flags.
sed -i -E 's/-(Winvalid-pch|fpch-preprocess)//g; s/-include [^ ]*cmake_pch\.hxx//g; s/-Wno-(restrict|subobject-linkage)//g; s/-Wno-maybe-uninitialized//g' \
  build/lint/compile_commands.json

without_libtorch='src/(base|storage|kafka|http|runs|transport|collective|engine|world|launch|cluster|pipeline|data|repository|dashboard)/|src/cli/(agent_command|bench_command|cluster_command|commands|dashboard_command|hosts_command|jobs_command|jobs_logs|jobs_submit|main|open_cluster|online_command|online_process|pipeline_command|run_command|serve_command|timeline_command)\.cc'
without_libtorch+='|src/serve/(metrics|tensors|grpc/(grpc_tensors|reflection|wire)|model/config|protocol/(base64|infer_json|json_tensors))\.cc|src/online/(config|database|example_store|example_writer|lock|trigger)\.cc'
# Left out: the kernels (one source compiled for several instruction sets), and their choice, whose
# __builtin_cpu_supports("f16c") clang 14 does not know; and what stands in for libraries that this build has.
git ls-files 'src/*.cc' | grep -E "$without_libtorch" | grep -v 'reduce/kernel' |
  while read -r file; do if grep -q "/$file\"" build/lint/compile_commands.json; then echo "$file"; fi; done |
  xargs -P "$(nproc)" -n 4 clang-tidy -p build/lint --quiet --warnings-as-errors='*'
