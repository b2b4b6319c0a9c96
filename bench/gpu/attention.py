#!/usr/bin/env python3
"""Times the attention of Ramet's NVIDIA back end on a card: kernel by kernel, and products a second.

    python3 bench/gpu/attention.py            # on a machine with a card and NVRTC
    python3 bench/gpu/attention.py --small    # small shapes: whether all launches work

As bench/gpu/rows.py, whose card it uses. Products are those that an attention needs, two forward and five backward;
what a causal mask hides is not counted.
"""

import argparse

from rows import PROCESSORS, Bench, Card, Float, Int, Long, Pointer, Unsigned, ceil_divide

ROWS, FORWARD_KEYS, SIZE, MOST_SHARED = 64, 128, 64, 8  # the last: a function's attribute


class Attention(Bench):
    def function(self, name, causal, dropout, shared=0):
        file = {"forward": "forward", "dkey": "backward", "dquery": "backward"}.get(name, "prepare")
        definitions = ["kStorage=BF16", "kBiasStorage=F32", "kTensor=1", "kVectors=1", f"kHeadSize={SIZE}"]
        definitions += [f"kValueSize={SIZE}", f"kCausal={int(causal)}", "kSegments=0", f"kKeyMask={int(not causal)}"]
        if file == "prepare":
            definitions[3:] = ["kVectors=0", "kHeadSize=16", "kValueSize=16", f"kCausal={int(causal)}"]
            definitions += ["kSegments=0", "kKeyMask=0"]
            dropout = False
        definitions += [f"kDropout={int(dropout)}", "kAdjusts=0", "kCached=0", "kForwardBlocks=3", "kBackwardBlocks=3"]
        function = self.card.function(f"attention_{file}.cu", f"attention_{name}", definitions)
        if shared:
            self.card.check(self.card.cuda.cuFuncSetAttribute(function, MOST_SHARED, shared))
        return function

    def attention(self, what, batch, sequence, heads, causal, dropout):
        rows, row = batch * heads * sequence, (SIZE + 8) * 2
        elements, words = batch * sequence * heads * SIZE, ceil_divide(sequence, FORWARD_KEYS) * 4
        sizes = (6 * elements, 6 * elements, 2 * elements, 2 * elements, 4 * rows, 4096, 4 * rows * words, 4 * rows)
        sets = self.sets(*sizes)
        masks = self.card.memory(4 * batch * sequence)
        for each in sets:
            self.card.fill(each[5], 4096, 0)

        def fields(i):
            qkv, dqkv, out, dout, lse, counter, keep, delta = sets[i]
            part = 2 * heads * SIZE
            pointers = [qkv, qkv + part, qkv + 2 * part, dqkv, dqkv + part, dqkv + 2 * part, dout, 0]
            pointers += [0 if causal else masks, out, lse, 0, 0, counter, 0, 0, keep, delta]
            numbers = [batch, sequence, sequence, heads, heads, SIZE, SIZE]
            numbers += [3 * heads * SIZE] * 3 + [0, -1, -1, 4, 0, words]
            all_fields = [(Pointer, each) for each in pointers] + [(Int, each) for each in numbers] + [(Long, 0)] * 8
            all_fields += [(Float, SIZE**-0.5), (Float, 0), (Float, 0), (Unsigned, 5), (Unsigned, 7), (Unsigned, 9)]
            all_fields += [(Unsigned, 6554), (Float, 1 / 0.9), (Long, rows * sequence), (Long, 0), (Long, heads)]
            return all_fields + [(Int, batch), (Int, heads)]

        grid = (ceil_divide(sequence, ROWS), heads, batch)
        forward, backward = (ROWS + 2 * FORWARD_KEYS) * row + FORWARD_KEYS * 4, 6 * ROWS * row + 8 * ROWS * 4
        product = 2 * rows * sequence * SIZE * (0.5 if causal else 1)
        options = (" causal" if causal else "") + (" dropout" if dropout else "")
        print(f"{what}: [{batch},{sequence},{heads},{SIZE}]{options}")
        total = {}
        for name, blocks, threads, shared, products in (
            ("draw", (ceil_divide(sequence * words, 256), heads, batch), 256, 0, 0),
            ("forward", grid, 128, forward, 2),
            ("delta", PROCESSORS * 8, 256, 0, 0),
            ("dkey", grid, 128, backward, 0),
            ("dquery", grid, 128, backward, 0),
        ):
            if name == "draw" and not dropout:
                continue
            function = self.function(name, causal, dropout, shared)

            def launch(i, function=function, blocks=blocks, threads=threads, shared=shared):
                self.card.launch(function, blocks, threads, fields(i), shared)

            total[name] = self.card.microseconds(launch, self.repeats)
            rate = f" {products * product / total[name] / 1e6:7.0f} TFLOP/s" if products else ""
            print(f"  {name:10} {total[name]:9.1f} us{rate}", flush=True)
        drawn = total.get("draw", 0)
        for name, products, time in (
            ("forward", 2, drawn + total["forward"]),
            ("backward", 5, drawn + total["delta"] + total["dkey"] + total["dquery"]),
        ):
            print(f"  {name} with all {time:9.1f} us {products * product / time / 1e6:7.0f} TFLOP/s", flush=True)
        for each in sets:
            for address in each:
                self.card.release(address)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="small shapes")
    arguments = parser.parse_args()
    bench = Attention(Card(), 1 if arguments.small else 20)
    shapes = [("BERT-large", 128, 128, 16, False), ("BERT-large", 32, 512, 16, False)]
    shapes += [("GPT-2 1.5B", 8, 1024, 25, True)]
    if arguments.small:
        shapes = [("small", 1, 130, 2, False), ("small", 1, 130, 1, True)]
    for what, batch, sequence, heads, causal in shapes:
        for dropout in (True, False):
            bench.attention(what, batch, sequence, heads, causal, dropout)


if __name__ == "__main__":
    main()
