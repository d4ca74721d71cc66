# Tables of one verb of the oracle over many networks; sourced by tests/real_graphs.sh, whose variables and `ask` it uses.
#
# A mode prints `network  verdict  seconds`: the worst relative error where gradc agrees with MXNet, else what differs,
# indented by two blanks. `reworded` after a figure means that MXNet executed the network in other operators, in float64, and
# `altered` that both sides read a changed file: tests/oracles/mxnet_reworded.py and tests/oracles/mxnet_altered.py say which and why.

spine=(mxnet-elemwise-add-grad gluon-mlp mxnet-clojure-mlp old-mlp-cpp tutorial-mlp-logistic autoencoder lenet-train
  old-lenet-cpp tutorial-cnn gluon-resnet18-v1 old-resnet-cpp densenet121)
# Smaller ones first.
classifiers=(rnn-fused-gru rnn-fused-tanh mxnet-notebook-mlp old-mxnet-save-000800 mxnet-mkldnn-model1 mxnet-seqmask-loss old-lightened-cnn
  old-squeezenet-1-1 resnet18-priv pose-resnet18-v1b shufflenas-train inception-v1-tf se-inception-v2 vgg16-finetuned
  old-vgg16-reduced gluon-resnet50-v1 gluon-resnet50-v2 resnext50-32x4d se-resnet50 pose-resnet50-v1b old-inception-bn
  resnet101-v2 air101 resnext101-32x4d se-resnext101-32x4d gluon-se-resnext101-32x4d gluon-resnext101-64x4d
  old-inception-bn-b se-resnet152 resnet152-v2 pose-resnet152-v1b pose-resnet152-v1d se-resnext152-64x4d r2plus1d-video
  old-inception-v3-cpp old-inception-v3-py inception-v3 gluon-inceptionv3-ucf101 inception-v4 bert-qa
  old-vgg16-fc gluon-vgg16-ucf101)
altered=(ntm-sparse-vae ocr-gru-unrolled)
reworded=(mtcnn-det1 old-mtcnn-det1 mtcnn-det3 old-mtcnn-det3 old-alexnet-cpp retinaface-r50 arcface-r50 arcface-r100)
exchanged=("${spine[@]}" rnn-fused-gru rnn-fused-tanh mxnet-notebook-mlp old-mxnet-save-000800 mxnet-mkldnn-model1 old-lightened-cnn
  old-squeezenet-1-1 resnet18-priv pose-resnet18-v1b shufflenas-train inception-v1-tf se-inception-v2 vgg16-finetuned
  old-vgg16-reduced gluon-resnet50-v1 gluon-resnet50-v2 resnext50-32x4d se-resnet50 pose-resnet50-v1b old-inception-bn
  resnet101-v2 air101 resnext101-32x4d se-resnext101-32x4d gluon-se-resnext101-32x4d gluon-resnext101-64x4d
  old-inception-bn-b se-resnet152 resnet152-v2 old-alexnet-cpp)
mixed=(lenet-train mtcnn-det3 old-squeezenet-1-1 old-lightened-cnn shufflenas-train gluon-resnet18-v1 old-resnet-cpp
  inception-v1-tf densenet121 se-resnet50)
mixed_twice=(lenet-train old-mlp-cpp autoencoder mtcnn-det3 gluon-resnet18-v1)
# Run with the channels last as well.
turned=(lenet-train gluon-resnet18-v1 old-squeezenet-1-1 inception-v1-tf densenet121)
# Of shapes.json; their operators do not exist in gradc.
without_operators=(ssd-resnet50-symbolic ssd512-mobilenet-int8 yolo3-darknet53)

is_among() {  # is_among NAME LIST…
  local name=$1 other
  shift
  for other; do [[ $name == "$other" ]] && return 0; done
  return 1
}

print_verdict() { printf '%s%-27s %-22s %4ds\n' "$(grep -q 'FAILS' <<<"$2" && echo '  ')" "$1" "$2" "$3"; }

# each_network LIST-NAME ASKER [NAME …]: a row for each given network, or for all of the list.
each_network() {
  local -n list=$1
  local asker=$2 name started
  shift 2
  local names=("$@")
  if ((!$#)); then names=("${list[@]}"); fi
  for name in "${names[@]}"; do
    started=$SECONDS
    print_verdict "$name" "$("$asker" "$name")" $((SECONDS - started))
  done
}

ask_compare() {  # ask_compare NAME [FLAG …]
  if is_among "$1" "${reworded[@]}"; then
    echo "$(oracle=(tests/oracles/mxnet_reworded.py "$(dirname "$oracle_file")") && ask compare "$@") reworded"
  elif is_among "$1" "${altered[@]}"; then
    ask_altered "$@"
  else
    ask compare "$@"
  fi
}
# The same file for both sides, changed so that MXNet reads it: tests/oracles/mxnet_altered.py.
ask_altered() {  # ask_altered NAME [FLAG …]
  local flags file=$graphs/$1.symbol.json
  shift
  mapfile -t flags < <(python3 tests/oracles/mxnet_altered.py "$file" "$work/altered.json")
  echo "$(figure "$("$mxnet" "$oracle_file" compare "$work/altered.json" --gradc "$GRADC" "${flags[@]}" "$@" 2>/dev/null |
    tail -n 1)") altered"
}
ask_add() { ask_compare "$1" --req add; }
ask_reference() { ask compare "$1" --run-flag=--backend=reference; }
ask_exchange() { ask exchange "$1"; }

# Intermediates retained, a no-gradient set, mixed requests: MXNet's numbers, and central differences.
ask_mixed() {  # ask_mixed NAME [ORDER]
  local name=$1 order=${2:-1} check
  check=$("$mxnet" tests/oracles/mixed_compare.py "$(dirname "$oracle_file")" gradcheck "$graphs/$name.symbol.json" --net "$name" \
    --gradc "$GRADC" --order "$order" 2>/dev/null | tail -n 1)
  [[ $check == passed* ]] || check="gradcheck FAILS"
  echo "$(oracle=(tests/oracles/mixed_compare.py "$(dirname "$oracle_file")") && ask compare "$name" --order "$order"), $check"
}
ask_mixed_twice() { ask_mixed "$1" 2; }

# MXNet's gradient graph, as a file, run by gradc.
ask_host() {
  figure "$("$mxnet" tests/oracles/host_graph.py "$(dirname "$oracle_file")" "$GRADC" "$graphs/$1.symbol.json" --net "$1" 2>/dev/null |
    tail -n 1)"
}

# The gradient graph in primitives, to the values of the operators themselves.
ask_primitives() {
  figure "$("$mxnet" tests/oracles/primitives_values.py "$(dirname "$oracle_file")" "$GRADC" "$graphs/$1.symbol.json" --net "$1" 2>/dev/null |
    tail -n 1)"
}

# A script with a table of its own.
run_script() {  # run_script SCRIPT [NAME …]
  MXNET_PYTHON=${mxnet:-python3} GRADC=$GRADC GRADC_SHARED=$shared "${mxnet:-python3}" "$@" | sed -E 's/^ +/- /'
  ((PIPESTATUS[0])) && echo "  $1 FAILS"
  return 0
}

ask_infer() {
  local out
  out=$("$mxnet" tests/oracles/mxnet_infer.py "$GRADC" "$(dirname "$oracle_file")" "$graphs/$1.symbol.json" "$1" 2>/dev/null | tail -n 1)
  case $out in
    AGREES*) echo "${out#AGREES }" ;;
    FAIL*"is unknown [unknown_op]"*)
      if is_among "$1" "${without_operators[@]}"; then echo "operator missing"; else echo "FAILS"; fi
      ;;
    *) echo "FAILS" ;;
  esac
}

# A training step of nodes that run as one, to that of nodes that run one by one: the same bytes, and how much memory for values.
ask_fused() {
  local choice flags bytes=()
  mapfile -t flags < <(shape_flags "$1" | tr ' ' '\n')
  "$GRADC" grad "$graphs/$1.symbol.json" --wrt all "${flags[@]}" -o "$work/g.json" 2>/dev/null || { echo "FAILS"; return; }
  for choice in none elements norms all; do
    "$GRADC" run "$work/g.json" --train --init 1 --threads 1 --repeat 2 --fuse "$choice" "${flags[@]}" \
      --outputs "$work/$choice.npz" >/dev/null 2>"$work/err" || { echo "FAILS"; return; }
    cmp -s "$work/none.npz" "$work/$choice.npz" || { echo "FAILS $choice"; return; }
    bytes+=("$(sed -nE 's/.* ([0-9]+) bytes planned for values.*/\1/p' "$work/err")")
  done
  echo "same bits, $((100 * bytes[3] / bytes[0]))% of the memory"
}

run_mode() {  # run_mode MODE [NAME …]
  local mode=$1 everything=("${spine[@]}" "${classifiers[@]}" "${reworded[@]}")
  local compared=("${everything[@]}" "${altered[@]}")
  local inferred=("${everything[@]}" "${without_operators[@]}")
  shift
  echo "$mode"
  if [[ $mode == --paddle ]]; then
    run_script tests/oracles/paddle_programs.py "$GRADC" "$shared/programs/paddle"
    return
  fi
  if [[ $mode == --kernels ]]; then
    local names=("$@")
    if ((!$#)); then names=("${inferred[@]}"); fi
    python3 bench/kernel_shares.py "$GRADC" "$shared/oracle/shapes.json" "$graphs" "${names[@]}"
    echo "channels last"
    if ((!$#)); then names=("${turned[@]}"); fi
    python3 bench/kernel_shares.py "$GRADC" "$shared/oracle/shapes.json" "$graphs" --channels-last "${names[@]}"
    return
  fi
  if [[ $mode == --fused ]]; then
    each_network everything ask_fused "$@"
    return
  fi
  if [[ -z $mxnet ]]; then
    echo "skipped (no MXNet)"
    return
  fi
  case $mode in
    --compare) each_network compared ask_compare "$@" ;;
    --req-add) each_network compared ask_add "$@" ;;
    --reference) each_network spine ask_reference "$@" ;;
    --mixed)
      each_network mixed ask_mixed "$@"
      echo "order 2"
      each_network mixed_twice ask_mixed_twice "$@"
      ;;
    --primitives) each_network everything ask_primitives "$@" ;;
    --host) each_network everything ask_host "$@" ;;
    --aggregation) run_script tests/oracles/host_aggregation.py "$@" ;;
    --loops)
      local verb
      for verb in compare exchange gradcheck; do
        echo "$verb"
        "$mxnet" tests/oracles/mxnet_loops.py "$verb" "$GRADC" "$@" 2>/dev/null | sed -E 's/^(.*: DIFFER)$/  \1/'
      done
      ;;
    --exchange) each_network exchanged ask_exchange "$@" ;;
    --infer) each_network inferred ask_infer "$@" ;;
  esac
}
