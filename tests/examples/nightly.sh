#!/usr/bin/env bash
# The example of a pipeline, with a few reviews: two nights, the second of which goes on from the first.
#
#   nightly.sh BIN EXAMPLE
set -euo pipefail
bin=$(cd "$1" && pwd)
export PATH=$bin:$PATH
example=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 - "$work" <<'PYTHON'
import pathlib, sys
words = {0: ["지루함", "별로", "나쁨"], 1: ["재미있는", "최고", "좋음"]}
for name, count in ("train", 2000), ("test", 600):
    lines = ["id\tdocument\tlabel"]
    for i in range(count):
        label = i % 2
        lines.append(f"{name}{i}\t영화{i % 37} {words[label][i // 2 % 3]} {words[label][i // 6 % 3]}\t{label}")
    pathlib.Path(sys.argv[1], f"ratings_{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
PYTHON
python3 "$example/prepare.py" --data "$work" --work "$work/nightly" --base 1500 --night 200
cd "$work/nightly"
# Deadlines of nights that have been are over.
sed -i '/^deadline/d' nightly.toml

sullae pipeline run nightly.toml --scheduled 2026-11-24T02:00 | tee first
grep -q 'report: done in' first
sullae pipeline run nightly.toml --scheduled 2026-11-25T02:00 | tee second
grep -q 'first-model: was done before, of the same' second
grep -q 'predict: done in' second
sullae pipeline run nightly.toml --scheduled 2026-11-25T02:00 | grep -q 'nothing was left to do'
test -e models/reviews/3/model.ckpt
test -e predictions/2026-11-24/_SUCCESS -a -e predictions/2026-11-25/_SUCCESS
grep -q '"version": 3' reports/2026-11-25.txt

# A night without its data fails, and says why; what does not need them is not in the way.
if sullae pipeline run nightly.toml --scheduled 2026-11-26T02:00 >third; then
  echo "a night without data must fail" >&2
  exit 1
fi
grep -q "prepare-0: FAILED: needs 'new/2026-11-26/part-0.csv', which is not there" third
grep -q 'step prepare-0 of ' told.txt
