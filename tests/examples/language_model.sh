# shellcheck shell=bash
sullae run -np 2 "$(command -v train)" --epochs 2 | tee output
grep -q 'epoch 2/2 .*test perplexity' output
# Goes on where it stopped.
sullae run -np 2 "$(command -v train)" --epochs 3 | tee output
grep -q 'resuming after epoch 2' output
grep -q 'epoch 3/3 .*test perplexity' output
perplexity=$(sed -n 's/.*test perplexity \([0-9.]*\).*/\1/p' output | tail -1)
# Letters drawn alike would have some 20.
awk -v p="$perplexity" 'BEGIN { exit !(p < 4) }'
grep -q 'test_perplexity' report.json
test -s report.html
test -s models/writer/1/model.pt
if train --text /no/such/file 2>error; then
  echo "a missing text must fail" >&2
  exit 1
fi
grep -q 'train: /no/such/file: cannot be read' error
