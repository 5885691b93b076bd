#!/usr/bin/env bash
# usage: tests/dev/check_load_demo.sh
# Runs ./dev load-demo in its short form and looks at what it leaves.
set -euo pipefail
rm -rf build/load-demo
./dev load-demo --quick
for page in closed open; do
  [[ $(wc -l <"build/load-demo/$page.csv") -ge 2 ]] || { echo "$page.csv has no load" >&2; exit 1; }
  grep -q '<svg' "build/load-demo/$page.html" || { echo "$page.html has no chart" >&2; exit 1; }
  file=build/load-demo/$page.png
  [[ $(head -c 4 "$file" | tail -c 3) == PNG && $(stat -c %s "$file") -gt 20000 ]] ||
    { echo "$file is not a picture of a page" >&2; exit 1; }
done
