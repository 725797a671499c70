# shellcheck shell=bash
sullae run -np 2 "$(command -v train)" | tee output
grep -q '^\[0\] epoch 3 ' output
test -s mnist.ckpt

lines=$(wc -l <"$example/main.cc")
if ((lines >= 120)); then
  echo "the example has $lines lines, and is to have fewer than 120" >&2
  exit 1
fi
if train --data /no/such/folder 2>error; then
  echo "a missing data set must fail" >&2
  exit 1
fi
grep -q 'train: /no/such/folder/train-images-idx3-ubyte: there is no such file' error
