#!/usr/bin/env bash
# ./dev fuzz --distill: makes testdata/fuzz/corpus.jsonl anew, of the small files of the corpus that reach most of the code.
set -uo pipefail

dir=${GRADC_FUZZ_DIR:-out/fuzz}
while (($#)); do
  case $1 in
    --distill) ;;
    --dir) dir=${2:?}; shift ;;
    *) echo "fuzz: unknown flag $1" >&2; exit 2 ;;
  esac
  shift
done
work=$dir/distill
rm -rf "$work" && mkdir -p "$work/files" "$work/cover" || exit 2
GRADC_FUZZ_EXPORT=$work/files "$FUZZ_TARGET" || exit
find "$dir/corpus-run" "$dir/seeds" -type f -exec cp -t "$work/files" {} +
find "$work/files" -type f -size +4096c -delete
# The control file says what code each file reaches. A file that fails is left out.
GRADC_FUZZ_LEVEL=run ASAN_OPTIONS=detect_leaks=0:allow_user_poisoning=0:handle_abort=1 UBSAN_OPTIONS=halt_on_error=1 \
  "$FUZZ_TARGET" -set_cover_merge=1 -use_counters=0 -max_len=4096 -timeout=10 -rss_limit_mb=4096 \
  -merge_control_file="$work/control" "$work/cover" "$work/files" >"$work/log" 2>&1 || { tail -5 "$work/log" >&2; exit 1; }
python3 - "$work/control" testdata/fuzz/corpus.jsonl <<'E2'
import heapq, json, sys

MOST_FILES, MOST_BYTES = 300, 1 << 20
rows = open(sys.argv[1]).read().split("\n")
paths = rows[2:2 + int(rows[0])]
reached = {}
for row in rows:
    if row.startswith("FT "):
        number, *features = map(int, row.split()[1:])
        reached[number] = set(features)


def line_of(path):
    """The file on one line; a quoted one where it is not JSON; None where it is not text."""
    try:
        text = open(path, "rb").read().decode()
        json.loads(text)
    except UnicodeDecodeError:
        return None
    except (ValueError, RecursionError):
        return json.dumps(text)
    return " ".join(text.split("\n")).strip()


# The file that adds most comes next: what is added only becomes less, so a file's last count is a bound.
covered, lines, size = set(), [], 0
queue = [(-len(features), number) for number, features in reached.items()]
heapq.heapify(queue)
while queue and len(lines) < MOST_FILES:
    bound, number = heapq.heappop(queue)
    added = len(reached[number] - covered)
    if added == 0:
        continue
    if added < -bound:
        heapq.heappush(queue, (-added, number))
        continue
    line = line_of(paths[number])
    if line is None or size + len(line) > MOST_BYTES:
        continue
    lines.append(line)
    size += len(line.encode()) + 1
    covered |= reached[number]
with open(sys.argv[2], "w") as file:
    file.writelines(line + "\n" for line in sorted(lines, key=lambda line: (len(line), line)))
every = set().union(*reached.values())
print(f"{sys.argv[2]}: {len(lines)} of {len(reached)} files, {size} bytes, reach {100 * len(covered) / max(len(every), 1):.1f} % of the {len(every)} "
      "edges that all of them reach")
E2
