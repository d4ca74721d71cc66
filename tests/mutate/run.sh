#!/usr/bin/env bash
# ./dev mutate: see docs/mutation.md
exec python3 "$(dirname "${BASH_SOURCE[0]}")/run.py" "$@"
