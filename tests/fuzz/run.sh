#!/usr/bin/env bash
# ./dev fuzz: runs the fuzz target (FUZZ_TARGET, built by ./dev) as docs/fuzzing.md says.
set -uo pipefail

die() {
  echo "fuzz: $*" >&2
  exit 2
}

seconds='' level=run jobs=$(nproc) seed=0 runs=-1 keep_going=0 minimize=0 minimize_seconds=20 files=()
dir=${GRADC_FUZZ_DIR:-out/fuzz}
while (($#)); do
  case $1 in
    --level) level=${2:?}; shift ;;
    --jobs) jobs=${2:?}; shift ;;
    --seed) seed=${2:?}; shift ;;
    --runs) runs=${2:?}; shift ;;
    --dir) dir=${2:?}; shift ;;
    --keep-going) keep_going=1 ;;
    --minimize-seconds) minimize_seconds=${2:?}; shift ;;
    --minimize) minimize=1 ;;
    -*) die "unknown flag $1" ;;
    *)
      if [[ $1 =~ ^[0-9]+$ && -z $seconds ]]; then seconds=$1
      elif [[ -e $1 ]]; then files+=("$1")
      else die "no such file: $1"; fi
      ;;
  esac
  shift
done
[[ $level =~ ^(read|plan|run|arrays|programs)$ ]] || die "--level is read, plan, run, arrays or programs"
# What is a file of its own kind has seeds of its own.
isGraph=1
[[ $level != arrays && $level != programs ]] || isGraph=0
[[ -n $seconds || ${#files[@]} -gt 0 ]] || die "how many seconds?"

export GRADC_FUZZ_LEVEL=$level
# LLVM's allocator poisons what it holds back, but only where its header is compiled under the sanitizer.
asan=detect_leaks=0:allow_user_poisoning=0:handle_abort=1:allocator_may_return_null=1
ubsan=print_stacktrace=1
export ASAN_OPTIONS=$asan UBSAN_OPTIONS=$ubsan:halt_on_error=1
export ASAN_SYMBOLIZER_PATH=/usr/lib/llvm-19/bin/llvm-symbolizer
limits=(-timeout=10 -rss_limit_mb=4096 -max_len=6000)
# libFuzzer's weights of features cost more than gradc: without them a search is three times as fast. One without runs takes
# less time in gradc than in the allocator: a quarantine that stays in the processor's cache makes it a quarter faster. An
# execution that only reads wants inputs that are short and mutated once, so parsed before, and a corpus that grows with the
# places reached alone, not with how often they are: twice as fast.
[[ $level == arrays ]] || limits+=(-entropic=0)
quarantine=quarantine_size_mb=32
if [[ $level == read || $level == plan ]]; then
  quarantine=quarantine_size_mb=1:thread_local_quarantine_size_kb=64:max_malloc_fill_size=0
fi
[[ $level != read ]] || limits+=(-max_len=2000 -mutate_depth=1 -use_counters=0 -use_memcmp=0)
[[ $level != plan ]] || limits+=(-max_len=4000)
[[ $level != programs ]] || limits+=(-max_len=20000)
findings=$dir/findings corpus=$dir/corpus-$level seeds=$dir/seeds seeded=$dir/seeded
((isGraph)) || seeds=$dir/seeds-$level seeded=$dir/seeded-$level
# With --keep-going, what need not end a process is kept there; the rest is a file of libFuzzer's in $findings.
kept=''
((keep_going)) && kept=$findings
mkdir -p "$findings" "$corpus" "$seeds" || exit 2

# The line that says what is wrong, and the first frame in the sources: the same twice is one finding.
reason() {
  grep -m1 -E '^finding: |runtime error: |ERROR: AddressSanitizer|ERROR: libFuzzer|Assertion .* failed|terminate called' "$1" |
    sed -E 's/^==[0-9]+==//; s/(address|pc|bp|sp) 0x[0-9a-f]+//g; s/ \(0x[0-9a-f]+.*//'
  grep -m1 -E '^ +#[0-9]+ 0x[0-9a-f]+ in (gradc::|.* (ir|ops|passes|runtime)/)' "$1" | sed -E 's/^ +#[0-9]+ 0x[0-9a-f]+ in //'
}

if ((${#files[@]})); then
  bad=0
  for file in "${files[@]}"; do
    if ((minimize)); then
      out=$findings/minimized-$(basename "$file")
      "$FUZZ_TARGET" "${limits[@]}" -minimize_crash=1 -max_total_time="${seconds:-60}" -exact_artifact_path="$out" "$file" \
        >"$dir/minimize.log" 2>&1
      if [[ -e $out ]]; then echo "$file -> $out, $(stat -c %s "$out") bytes"; else echo "$file: cannot be made smaller, or does not fail"; fi
    elif "$FUZZ_TARGET" "${limits[@]}" "$file" >"$dir/replay.log" 2>&1; then
      echo "$file: ok"
    else
      bad=1
      echo "$file: FAILED: $(reason "$dir/replay.log" | tr '\n' ' ')"
    fi
  done
  exit $bad
fi

# Made anew for every build: the operators may be others.
if [[ ! $seeded -nt $FUZZ_TARGET ]]; then
  rm -rf "$seeds" && mkdir -p "$seeds" && GRADC_FUZZ_EXPORT=$seeds "$FUZZ_TARGET" || die "the seeds could not be made"
  ((!isGraph)) || find "$seeds" -type f -size +11 -delete
  ((!isGraph)) || find testdata -name '*.json' -size -12 -exec grep -q '"nodes"' {} \; -print |
    while read -r file; do cp "$file" "$seeds/${file//\//_}"; done
  touch "$seeded"
fi

# The last: slow units are written before what ends the process.
artifact_of() { grep -oE "Test unit written to .*" "$1" | sed 's/Test unit written to //' | tail -1; }

forget() {
  local file
  [[ -n $1 ]] || return 0
  for file in "$seeds"/*; do if cmp -s "$file" "$1"; then rm -f "$file"; fi; done
}

# One process after the other until the time is over; each ends at its first finding.
hunt() {
  local job=$1 round=0 end=$((SECONDS + seconds)) log code
  while ((SECONDS < end)); do
    log=$dir/job$job.$round.log
    GRADC_FUZZ_TALLY=$dir/tally$job GRADC_FUZZ_KEEP=$kept ASAN_OPTIONS=$asan:malloc_context_size=1:$quarantine \
      UBSAN_OPTIONS=$ubsan:halt_on_error=$((1 - keep_going)) "$FUZZ_TARGET" "${limits[@]}" -max_total_time=$((end - SECONDS)) -runs="$runs" \
      -seed=$((seed ? seed + 1000 * job + round : 0)) -reload=10 -print_final_stats=1 -artifact_prefix="$findings/" \
      "$corpus" "$seeds" >"$log" 2>&1
    code=$?
    round=$((round + 1))
    ((code == 0)) && return 0
    ((keep_going)) || return 1
    # A seed that ends the process would do so again.
    forget "$(artifact_of "$log")"
  done
}

rm -f "$dir"/job*.log "$dir"/tally*
touch "$dir/started"
started=$SECONDS pids=()
for ((job = 0; job < jobs; ++job)); do
  hunt "$job" &
  pids+=($!)
done
trap 'kill "${pids[@]}" 2>/dev/null' INT TERM
wait

# A process that ends at a finding prints no statistics: its last progress line has the number.
executed=0
for log in "$dir"/job*.log; do
  count=$(grep -oE 'number_of_executed_units: [0-9]+' "$log" | grep -oE '[0-9]+$')
  [[ -n $count ]] || count=$(grep -oE '^#[0-9]+' "$log" | tail -1 | tr -d '#')
  executed=$((executed + ${count:-0}))
done
spent=$((SECONDS - started))
declare -A seen
found=0
# WHY ARTIFACT: once per reason, when it fails again by itself; made smaller.
tell() {
  local why=$1 artifact=$2 small
  [[ -n $why ]] || why="took long: $(basename "$artifact")"
  [[ -z ${seen[$why]:-} ]] || return 0
  seen[$why]=1
  if "$FUZZ_TARGET" "${limits[@]}" "$artifact" >"$dir/replay.log" 2>&1; then
    echo "not again: $why"
    echo "        $artifact"
    return 0
  fi
  found=$((found + 1))
  small=$findings/minimized-$(basename "$artifact" .json).json
  "$FUZZ_TARGET" "${limits[@]}" -minimize_crash=1 -max_total_time="$minimize_seconds" -exact_artifact_path="$small" "$artifact" \
    >"$dir/minimize.log" 2>&1
  [[ -e $small ]] || cp "$artifact" "$small"
  echo "FINDING $why"
  echo "        $small"
}

for log in "$dir"/job*.log; do
  artifact=$(artifact_of "$log")
  [[ -z $artifact ]] || tell "$(reason "$log" | tr '\n' ' ')" "$artifact"
done
for note in $(find "$findings" -name 'kept-*.txt' -newer "$dir/started"); do
  tell "$(cat "$note")" "${note%.txt}.json"
done
echo "$executed executions at level $level in $spent s with $jobs jobs, $((executed / (spent > 0 ? spent : 1))) per second; $found findings"
((found == 0))
