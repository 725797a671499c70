#!/usr/bin/env bash
# Prints what went wrong in the tests that failed last, behind all else: of a long log, its end is what is read, and
# sometimes all that is kept.
#   scripts/failed_tests.sh BUILD_FOLDER
set -euo pipefail
logs=$1/Testing/Temporary
[ -s "$logs/LastTestsFailed.log" ] || exit 0
awk -v most=30 '
  # From the first failure on, where there is one; else the last lines.
  function print_test() {
    print "==== " name
    from = first ? first : (count > most ? count - most + 1 : 1)
    for (i = from; i <= count && i < from + most; ++i) print lines[i]
  }
  FNR == NR { failed[substr($0, index($0, ":") + 1)] = 1; next }
  /^[0-9]+\/[0-9]+ Test: / { name = substr($0, index($0, ": ") + 2) }
  /^Output:$/ { inside = name in failed; count = first = 0; next }
  /^<end of output>$/ { if (inside) print_test(); inside = 0 }
  inside { lines[++count] = $0; if (!first && /: Failure$|ERROR: |WARNING: ThreadSanitizer/) first = count }
' "$logs/LastTestsFailed.log" "$logs/LastTest.log"
