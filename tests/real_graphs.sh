#!/usr/bin/env bash
# Real networks nobody here wrote, when a folder of them is beside the repository: every file loads and `convert` is a
# fixed point; legacy files upgrade to what MXNet makes of them; gradients, values and emitted graphs agree with MXNet.
#
#   tests/real_graphs.sh --quick      loading and round trips of all files, MXNet on four small networks
#   tests/real_graphs.sh              the whole table: the twelve networks, every verb, second order
#   tests/real_graphs.sh NAME …       the whole table for these networks
#   tests/real_graphs.sh MODE [NAME …]  one verb over many networks, or over those named:
#     --compare     training step by the default kernels, every network whose operators gradc has
#     --reference   the same by the reference kernels     --req-add   with gradients added to what is there
#     --exchange    MXNet runs the gradient graphs        --infer     shapes and types of every entry
#     --mixed       retained intermediates, a no-gradient set, mixed requests; orders 1 and 2
#     --host        MXNet's own gradient graphs, run by gradc
#     --primitives  the same by gradc, in primitives alone
#     --fused       nodes that run as one, to nodes that run one by one; without MXNet
#     --aggregation sums and copies as in MXNet's graph   --paddle    Paddle's programs
#     --kernels     share of reference kernels in the training step, at most 1 %; needs no MXNet
#     --loops       loops and branches of MXNet's front end: values, gradients, gradient graphs run by MXNet
#
# GRADC is the binary (default: the one ./dev build makes). MXNET_PYTHON is a Python with mxnet 1.9.1; without it one is
# looked for in, and if need be made in, the folder MXNET_VENV (default: ~/.cache/gradc-mxnet). Prints "skipped" for
# what cannot be had. Exit status 1 when anything differs.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

shared=${GRADC_SHARED:-../shared}
graphs=$shared/graphs/mxnet
oracle_file=$shared/oracle/mxnet_oracle.py
oracle=("$oracle_file")
source tests/real_graphs_modes.sh
quick=(mxnet-elemwise-add-grad old-mlp-cpp lenet-train old-lenet-cpp)

if [[ ! -d $graphs && ${1:-} != --loops ]]; then
  echo "real graphs: skipped (no $graphs)"
  exit 0
fi
GRADC=${GRADC:-$PWD/out/bin/tools/gradc/gradc}
[[ -x $GRADC ]] || { echo "real graphs: no gradc at $GRADC; run ./dev build" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A Python that imports mxnet, or nothing. numpy below 1.24 because mxnet 1.9.1 uses names it removed.
find_mxnet() {
  local venv=${MXNET_VENV:-${HOME:-/tmp}/.cache/gradc-mxnet}
  local python
  for python in ${MXNET_PYTHON:-} "$venv/bin/python"; do
    if [[ -x $python ]] && "$python" -c 'import mxnet' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  for python in python3.11 python3.10 python3.9 python3.8 python3; do
    command -v "$python" >/dev/null || continue
    "$python" -m venv "$venv" >/dev/null 2>&1 || continue
    timeout 300 "$venv/bin/pip" install -q 'mxnet==1.9.1' 'numpy<1.24' >/dev/null 2>&1 || continue
    "$venv/bin/python" -c 'import mxnet' 2>/dev/null && echo "$venv/bin/python" && return
  done
}

# Every file loads, and converting what convert wrote changes nothing.
check_round_trips() {
  local file bad=0 count=0
  for file in "$graphs"/*.symbol.json; do
    count=$((count + 1))
    if ! "$GRADC" convert "$file" -o "$work/1.json" 2>"$work/err" || ! "$GRADC" convert "$work/1.json" -o "$work/2.json" 2>>"$work/err"; then
      echo "  $(basename "$file"): $(head -n 1 "$work/err")"
      bad=$((bad + 1))
    elif ! cmp -s "$work/1.json" "$work/2.json"; then
      echo "  $(basename "$file"): convert is no fixed point"
      bad=$((bad + 1))
    fi
  done
  echo "load and round trip: $((count - bad)) of $count files"
}

# Files from before NNVM 1.0's `attrs`: gradc's reading against MXNet's own upgrade.
check_upgrades() {
  local file bad=0 count=0 unread=0 vendor=0
  for file in "$graphs"/*.symbol.json; do
    if ! "$mxnet" "$oracle_file" upgrade "$file" -o "$work/up.json" >/dev/null 2>&1; then
      unread=$((unread + 1))
      continue
    fi
    count=$((count + 1))
    if ! "$GRADC" diff "$file" "$work/up.json" >"$work/diff" 2>&1; then
      # MXNet's parser of this int8 vendor operator, unknown to gradc, renames an attribute while it loads.
      if grep -q "(_sg_mkldnn_conv): attribute 'with_act'" <(head -n 1 "$work/diff"); then
        vendor=$((vendor + 1))
        continue
      fi
      echo "  $(basename "$file"): $(head -n 1 "$work/diff")"
      bad=$((bad + 1))
    fi
  done
  echo "as MXNet's loader reads it: $((count - bad - vendor)) of $count files ($vendor apart from a vendor operator's" \
    "attribute, $bad otherwise different; MXNet does not load $unread more)"
}

# shape_flags NAME: --shape flags from the oracle's table.
shape_flags() {
  python3 - "$shared/oracle/shapes.json" "$1" <<'E'
import json, sys
for name, dims in json.load(open(sys.argv[1]))[sys.argv[2]]["shape"].items():
    print("--shape", name + "=" + ",".join(map(str, dims)))
E
}

figure() {  # figure LINE: the worst relative error in the oracle's last line, or FAILS
  case $1 in
    AGREES*) sed -E 's/AGREES [0-9]+ entries, worst relative error (.*)/\1/' <<<"$1" ;;
    *) echo "FAILS" ;;
  esac
}

ask() {  # ask VERB NAME [FLAG …]: the verdict of the oracle
  local verb=$1 name=$2
  shift 2
  figure "$(timeout 1800 "$mxnet" "${oracle[@]}" "$verb" "$graphs/$name.symbol.json" --net "$name" --gradc "$GRADC" "$@" \
    2>/dev/null | tail -n 1)"
}

step() { if "$@" >"$work/out" 2>"$work/err"; then echo ok; else echo FAILS; fi; }

check_network() {
  local name=$1 file=$graphs/$1.symbol.json flags grad infer plan run check compare=skipped exchange=skipped started=$SECONDS
  mapfile -t flags < <(shape_flags "$name" | tr ' ' '\n')
  grad=$(step "$GRADC" grad "$file" --wrt all "${flags[@]}" -o "$work/g.json")
  infer=$(step "$GRADC" infer "$work/g.json" "${flags[@]}" -o "$work/i.json")
  plan=$(step "$GRADC" plan "$work/g.json" "${flags[@]}" -o "$work/p.json")
  run=$(step "$GRADC" run "$work/g.json" --train --init 1 --dtype float64 "${flags[@]}" --outputs "$work/o.npz")
  check=$(step "$GRADC" gradcheck "$file" --samples 40 --init 1 "${flags[@]}")
  if [[ -n $mxnet ]]; then
    compare=$(ask compare "$name")
    exchange=$(ask exchange "$name")
  fi
  printf '%-26s %-6s %-6s %-6s %-6s %-10s %-9s %-9s %4ds\n' "$name" "$grad" "$infer" "$plan" "$run" "$check" \
    "$compare" "$exchange" $((SECONDS - started))
}

check_order_two() {
  local name=$1 flags
  mapfile -t flags < <(shape_flags "$name" | tr ' ' '\n')
  echo "gradcheck --order 2 on $name: $(step "$GRADC" gradcheck "$graphs/$name.symbol.json" --order 2 --init 1 "${flags[@]}")"
}

quick_part() {
  check_round_trips
  local name
  for name in "${quick[@]}"; do
    if [[ -n $mxnet ]]; then echo "MXNet on $name: $(ask compare "$name")"; else echo "MXNet on $name: skipped"; fi
  done
}

whole_table() {
  local name networks=("$@")
  if ((!$#)); then
    networks=("${spine[@]}")
    check_round_trips
    if [[ -n $mxnet ]]; then check_upgrades; fi
  fi
  printf '%-26s %-6s %-6s %-6s %-6s %-10s %-9s %-9s\n' network grad infer plan run gradcheck compare exchange
  for name in "${networks[@]}"; do check_network "$name"; done
  (($#)) && return
  for name in lenet-train old-mlp-cpp autoencoder; do check_order_two "$name"; done
  for name in lenet-train old-mlp-cpp tutorial-cnn; do
    echo "MXNet's gradient graph of $name: $(if [[ -n $mxnet ]]; then ask_host "$name"; else echo skipped; fi)"
  done
}

mxnet=$(find_mxnet)
[[ -f $oracle_file || ${1:-} == --loops ]] || mxnet=
case ${1:-} in
  --quick) quick_part ;;
  --compare | --reference | --req-add | --exchange | --infer | --mixed | --host | --primitives | --aggregation | --paddle | \
    --kernels | --loops | --fused)
    run_mode "$@"
    ;;
  -*) echo "  $1: no such mode" ;;
  *) whole_table "$@" ;;
esac | tee "$work/report"
failures=$(grep -cE 'FAILS|^  ' "$work/report")
if ((failures)); then echo "real graphs: $failures differ"; else echo "real graphs: all agree"; fi
exit $((failures != 0))
