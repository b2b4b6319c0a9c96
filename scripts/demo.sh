#!/usr/bin/env bash
# BERT learns real English in a few minutes: see docs/demo.md. Run through `make demo`, which builds first.
#
#   DEMO_STEPS      training steps (default: those of examples/demo.toml)
#   DEMO_THREADS    threads (default: all processors)
#   DEMO_SOURCES    texts, by the names of `scripts/demo_corpus.py --list` (default: two Bibles)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ramet=build/ramet
work=build/demo
recipe=examples/demo.toml
threads=${DEMO_THREADS:-$(nproc)}
sentences=(
  "In the beginning God created the [MASK] and the earth."
  "And the king said unto the [MASK], Go in peace."
  "The LORD is my [MASK]; I shall not want."
  "Jesus answered and [MASK] unto them, Verily I say unto you."
  "And it came to [MASK] in those days, that he went out into a mountain to pray."
)

say() { printf '\n== %s\n' "$*"; }

say "English text from Debian's packages"
scripts/demo_corpus.py --out "$work/text" --sources "${DEMO_SOURCES:-king-james,world-english}"
cat "$work/text/SOURCES.md"

if [ ! -f "$work/vocab/vocab.txt" ] || [ "$work/text/stamp" -nt "$work/vocab/vocab.txt" ]; then
  say "A vocabulary of 4096 word pieces"
  "$ramet" vocab --kind wordpiece --size 4096 --threads "$threads" --out "$work/vocab" "$work"/text/*.txt
fi
if [ ! -f "$work/corpus/manifest.json" ] || [ "$work/vocab/vocab.txt" -nt "$work/corpus/manifest.json" ]; then
  say "The corpus, with one document in fifty held out"
  "$ramet" corpus --tokenizer "$work/vocab" --heldout 0.02 --replace --threads "$threads" --out "$work/corpus" "$work"/text/*.txt
fi

settings=(--threads "$threads")
if [ -n "${DEMO_STEPS:-}" ]; then settings+=(--set "train.steps=$DEMO_STEPS" --set "train.schedule.warmup_steps=$((DEMO_STEPS / 10))"); fi
say "What it will take"
"$ramet" plan "$recipe" "${settings[@]}"

say "Before training"
"$ramet" eval "$recipe" "${settings[@]}"

say "Training"
run=$work/run
rm -rf "$run"
"$ramet" train "$recipe" "${settings[@]}" --run "$run"

say "After training"
"$ramet" eval "$run" --threads "$threads"

say "Masked words, filled"
"$ramet" predict "$run" --threads "$threads" --top 3 "${sentences[@]}"

say "The run: planned beside measured"
"$ramet" runs show "$run"

say "To see it in a browser: memory, time, curves"
echo "$ramet serve --run-dir $work"
