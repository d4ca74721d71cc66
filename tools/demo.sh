#!/usr/bin/env bash
# A walk through gradc on three small networks: `./dev demo`, or GRADC=path/to/gradc bash tools/demo.sh from the root of
# the repository. Leaves what it made in out/demo.
set -euo pipefail

: "${GRADC:?set GRADC to the gradc binary, or run ./dev demo}"
networks=testdata/demo
results=out/demo
mkdir -p "$results"

title() { printf '\n== %s\n' "$*"; }

# Prints the command as a person would type it, then runs it.
run() {
  printf '$ gradc %s\n' "$*"
  "$GRADC" "$@"
}

# demo NAME DATA_SHAPE: the training graph of a network, its memory, one step.
demo() {
  local name=$1 data=$2
  local model=$networks/$name.json train=$results/$name.train.json
  title "$name: the forward network"
  run show --as stats "$model"

  title "$name: its training graph"
  run grad "$model" --shape "data=$data" -o "$train"
  run show --as stats "$train"

  title "$name: memory for values between operators, against the least any plan of this order needs"
  run plan "$train" --report

  title "$name: one training step, values drawn by a seed"
  run run "$train" --train --init 1 --outputs "$results/$name.step.npz" -o "$results/$name.step.txt"
  head -n 6 "$results/$name.step.txt"
  echo "… $(($(wc -l <"$results/$name.step.txt") - 6)) more in $results/$name.step.txt"
}

demo lenet 8,1,28,28
demo resnet18 8,3,32,32

title "lenet: are these gradients right? Central differences, in double precision"
run gradcheck "$results/lenet.train.json" --shape data=8,1,28,28 --init 1 --samples 60

title "digits: trained on handwritten digits, tested on others"
digits=testdata/digits/digits.npz
run train "$networks/digits.json" \
  --data "$digits" --feed data=train_images --feed softmax_label=train_labels \
  --eval-feed data=test_images --eval-feed softmax_label=test_labels \
  --batch 32 --epochs 12 --momentum 0.9 --wd 5e-4 --schedule cosine --warmup 45 \
  --checkpoint "$results/digits.checkpoint.npz" --log "$results/digits.log.jsonl" --svg "$results/digits.loss.svg" \
  --emit-graph "$results/digits.train.json" -o "$results/digits.params.npz"
echo "the loss as a picture:  $results/digits.loss.svg"
echo "trained parameters:     $results/digits.params.npz"

title "Left behind"
ls -l "$results"
