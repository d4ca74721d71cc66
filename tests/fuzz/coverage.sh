#!/usr/bin/env bash
# ./dev fuzz --coverage: lines and operators that the corpus and the draws of coverage_main.cc reach.
set -uo pipefail

jobs=$(nproc) dir=${GRADC_FUZZ_DIR:-out/fuzz}
while (($#)); do
  case $1 in
    --coverage) ;;
    --jobs) jobs=${2:?}; shift ;;
    --dir) dir=${2:?}; shift ;;
    *) echo "fuzz: unknown flag $1" >&2; exit 2 ;;
  esac
  shift
done
dir=$dir/coverage
rm -rf "$dir" && mkdir -p "$dir" || exit 2

bad=0 pids=()
for ((job = 0; job < jobs; ++job)); do
  LLVM_PROFILE_FILE=$dir/$job.profraw "$FUZZ_COVERAGE" "$job" "$jobs" "$dir/tally$job" &
  pids+=($!)
done
trap 'kill "${pids[@]}" 2>/dev/null' INT TERM
for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
llvm-profdata-19 merge -sparse -o "$dir/all.profdata" "$dir"/*.profraw || exit
llvm-cov-19 export -summary-only -instr-profile="$dir/all.profdata" "$FUZZ_COVERAGE" >"$dir/summary.json" || exit
python3 - "$dir" <<'E2' || bad=1
import collections, glob, json, os, sys

NEEDED_LINES, NEEDED_TIMES = 80, 1000
folder = sys.argv[1]
lines = collections.defaultdict(lambda: [0, 0])
for file in json.load(open(folder + "/summary.json"))["data"][0]["files"]:
    name = file["filename"].removeprefix("/proc/self/cwd/").removeprefix("./")
    count = file["summary"]["lines"]
    lines[name.split("/")[0]][0] += count["covered"]
    lines[name.split("/")[0]][1] += count["count"]
bad = False
for name in ("ir", "formats", "ops", "passes"):
    covered, count = lines[name]
    percent = 100 * covered / max(count, 1)
    bad |= percent < NEEDED_LINES
    print(f"{name + '/':9}{percent:6.1f} % of {count} lines" + (f", fewer than {NEEDED_LINES} %" if percent < NEEDED_LINES else ""))
tally = collections.defaultdict(lambda: [0, 0, 0])
for path in glob.glob(folder + "/tally*"):
    for row in open(path):
        name, *counts = row.split()
        for i, count in enumerate(counts):
            tally[name][i] += int(count)
rare = {name: row for name, row in tally.items() if min(row[1:]) < NEEDED_TIMES}
for name, (inferred, ran, differentiated) in sorted(rare.items()):
    print(f"{name}: inferred {inferred} times, run {ran}, differentiated {differentiated}")
print(f"{len(tally) - len(rare)} of {len(tally)} operators run and differentiated {NEEDED_TIMES} times or more. One that "
      "has no gradient counts as differentiated where the pass said so, one without inputs where its value was reached")
sys.exit(bad or bool(rare))
E2
exit $bad
