// What attention's kernels read that its operands do not hold: where the tiles of segments lie, which probabilities
// dropout keeps, and sums of products of the output and its gradient.

#include "attention.cuh"
#include "philox.cuh"

namespace ramet_device {

// --- segments ---

/// Writes the tiles of the run [begin, end), behind `count` others.
__device__ __forceinline__ int write_tiles(int* table, int count, int begin, int end, int number) {
  const int tiles = (end - begin + kRows - 1) / kRows;
  for (int i = static_cast<int>(threadIdx.x); i < tiles; i += 32) {
    int* to = table + 4 + (count + i) * 4;
    to[0] = begin, to[1] = end - begin, to[2] = i * kRows, to[3] = number;
  }
  return count + tiles;
}

/// The tiles of a sample's runs of equal numbers; one warp a sample.
RAMET_KERNEL(32, attention_tiles, AttentionArguments, a) {
  const int sample = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x);
  const int* numbers = static_cast<const int*>(a.mask) + static_cast<Index>(sample) * a.sequence;
  int* table = a.tiles + static_cast<Index>(sample) * a.tile_ints;
  int begin = 0, number = numbers[0], count = 0;
  for (int first = 0; first < a.sequence; first += 32) {
    const int at = first + lane < a.sequence ? first + lane : a.sequence - 1;
    const int mine = numbers[at], before = numbers[at > 0 ? at - 1 : 0];
    unsigned starts = __ballot_sync(0xffffffffu, first + lane < a.sequence && mine != before);
    for (; starts != 0u; starts &= starts - 1u) {
      const int bit = __ffs(static_cast<int>(starts)) - 1;
      count = write_tiles(table, count, begin, first + bit, number);
      begin = first + bit;
      number = __shfl_sync(0xffffffffu, mine, bit);
    }
  }
  count = write_tiles(table, count, begin, a.sequence, number);
  if (lane == 0) table[0] = count;
}

// --- dropout ---

/// A bit for each of the eight elements of a block of random numbers: 1 where it is kept.
__device__ __forceinline__ unsigned kept_of_block(const uint4& words, unsigned below) {
  unsigned kept = 0;
  RAMET_UNROLL
  for (int i = 0; i < 8; ++i) kept |= (half_of_block(words, i) >= below ? 1u : 0u) << i;
  return kept;
}

/// Each thread draws for 32 keys of a query at a time.
RAMET_KERNEL(256, attention_draw, AttentionArguments, a) {
  const Index heads = static_cast<Index>(a.batch) * a.heads, words = a.keep_words;
  const RandomStream stream = {a.draw_key[0], a.draw_key[1], static_cast<unsigned>(a.counter[0]), a.draw_tensor};
  const unsigned long long start =
      static_cast<unsigned long long>(a.counter[1]) * static_cast<unsigned long long>(a.draws);
  for (Index at = first_index(); at < heads * a.sequence * words; at += index_step()) {
    const Index row = at / words, head = row / a.sequence;
    const int key = static_cast<int>(at - row * words) * 32, query = static_cast<int>(row - head * a.sequence);
    unsigned kept = 0;
    const bool seen = key < a.keys && (!kCausal || kSegments || key <= query + a.ahead);
    if (seen) {
      const Index logical = a.head_first + head / a.heads * a.head_sample + head % a.heads;
      const unsigned long long element =
          start + static_cast<unsigned long long>((logical * a.sequence + query) * a.keys + key);
      const unsigned skipped = static_cast<unsigned>(element) & 7u;
      unsigned long long bits = 0;
      RAMET_UNROLL
      for (unsigned i = 0; i < 5; ++i)
        if (i < 4 || skipped != 0u)
          bits |= static_cast<unsigned long long>(kept_of_block(stream.block(element / 8 + i), a.draw_below))
                  << (8 * i);
      kept = static_cast<unsigned>(bits >> skipped);
    }
    a.keep[at] = kept;
  }
}

// --- sums of the output's gradient ---

/// Sixteen threads a row, in the order of AVX-512: lane l adds elements l, l + 16, ..., then halves are added.
RAMET_KERNEL(256, attention_delta, AttentionArguments, a) {
  const Index rows = static_cast<Index>(a.batch) * a.sequence * a.heads;
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const Index step = index_step() / 16, rounds = (rows + step - 1) / step;
  Index row = first_index() / 16;
  for (Index round = 0; round < rounds; ++round, row += step) {
    float sum = 0.0f;
    if (row < rows) {
      const Stored* dout = static_cast<const Stored*>(a.dout) + row * a.value_size;
      const Stored* out = static_cast<const Stored*>(a.out) + row * a.value_size;
      const int whole = (a.value_size + 15) / 16 * 16;
      for (int d = lane; d < whole; d += 16) {
        const bool there = d < a.value_size;
        sum = __fmaf_rn(there ? kStorage::widen(dout[d]) : 0.0f, there ? kStorage::widen(out[d]) : 0.0f, sum);
      }
    }
    RAMET_UNROLL
    for (int by = 8; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    if (row < rows && lane == 0) {
      const Index position = row / a.heads, sample = position / a.sequence;
      a.delta[(sample * a.heads + row % a.heads) * a.sequence + position % a.sequence] = sum;
    }
  }
}

}  // namespace ramet_device
