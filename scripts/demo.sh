#!/usr/bin/env bash
# BERT learns real English in a few minutes: see docs/demo.md. Run through `make demo`, which builds first.
#
#   DEMO_STEPS      training steps (default 600)
#   DEMO_THREADS    threads (default: all processors)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ramet=build/ramet
work=build/demo
recipe=examples/demo.toml
steps=${DEMO_STEPS:-600}
threads=${DEMO_THREADS:-$(nproc)}
sentences=(
  "In the beginning God created the [MASK] and the earth."
  "And the king said unto the [MASK], Go in peace."
  "The [MASK] of a dog is called a puppy."
  "A large animal of prey that lives in the [MASK]."
  "Press the key to write the [MASK] to the disk."
)

say() { printf '\n== %s\n' "$*"; }

say "English text from Debian's packages"
scripts/demo_corpus.py --out "$work/text"
cat "$work/text/SOURCES.md"

if [ ! -f "$work/vocab/vocab.txt" ] || [ "$work/text/stamp" -nt "$work/vocab/vocab.txt" ]; then
  say "A vocabulary of 8192 word pieces"
  "$ramet" vocab --kind wordpiece --size 8192 --out "$work/vocab" "$work"/text/*.txt
fi
if [ ! -f "$work/corpus/manifest.json" ] || [ "$work/vocab/vocab.txt" -nt "$work/corpus/manifest.json" ]; then
  say "The corpus, with one document in fifty held out"
  "$ramet" corpus --tokenizer "$work/vocab" --heldout 0.02 --replace --out "$work/corpus" "$work"/text/*.txt
fi

settings=(--set "data.corpus=$work/corpus" --set "train.steps=$steps" --threads "$threads")
say "What it will take"
"$ramet" plan "$recipe" "${settings[@]}"

say "Before training"
"$ramet" eval "$recipe" "${settings[@]}"

say "Training"
run=$work/run
rm -rf "$run"
"$ramet" train "$recipe" "${settings[@]}" --run "$run"

say "After training"
"$ramet" eval "$run"
for sentence in "${sentences[@]}"; do "$ramet" predict "$run" "$sentence"; done

say "Planned beside measured"
"$ramet" runs show "$run"
