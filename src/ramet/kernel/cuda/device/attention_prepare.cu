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

/// In bits 15 and 31: whether that half of `word` is at least that of `least`.
__device__ __forceinline__ unsigned halves_at_least(unsigned word, unsigned least) {
  const unsigned tops = 0x80008000u, rest = (word | tops) - (least & ~tops);  // nothing is borrowed between halves
  return (word & ~least) | (~(word ^ least) & rest);
}

/// Which elements of a block of random numbers are kept: four even ones in bits 0 to 3, the odd ones in bits 16 to 19.
__device__ __forceinline__ unsigned kept_of_block(const uint4& words, unsigned least) {
  const unsigned tops = 0x80008000u;
  return (halves_at_least(words.x, least) & tops) >> 15 | (halves_at_least(words.y, least) & tops) >> 14 |
         (halves_at_least(words.z, least) & tops) >> 13 | (halves_at_least(words.w, least) & tops) >> 12;
}

/// The same of the 32 elements from `element` on: the even ones in bits 0 to 15, the odd ones in bits 16 to 31.
__device__ __forceinline__ unsigned kept_of_word(const RandomStream& stream, unsigned long long element,
                                                 unsigned least) {
  unsigned kept = 0;
  RAMET_UNROLL
  for (int i = 0; i < 4; ++i) kept |= kept_of_block(stream.block(element / 8 + i), least) << (4 * i);
  const unsigned skipped = static_cast<unsigned>(element) & 7u;
  if (skipped == 0u) return kept;
  const unsigned more = kept_of_block(stream.block(element / 8 + 4), least);
  const unsigned even = (kept & 0xffffu) | (more & 0xfu) << 16, odd = kept >> 16 | more >> 16 << 16;
  const unsigned first = skipped % 2 == 0 ? even : odd, second = skipped % 2 == 0 ? odd : even >> 1;
  return (first >> skipped / 2 & 0xffffu) | second >> skipped / 2 << 16;
}

/// Each thread draws for 32 keys of a query; heads are blocks' y, samples their z.
RAMET_KERNEL(256, attention_draw, AttentionArguments, a) {
  const int at = static_cast<int>(first_index()), head = static_cast<int>(blockIdx.y);
  const int sample = static_cast<int>(blockIdx.z), query = at / a.keep_words, key = (at - query * a.keep_words) * 32;
  if (query >= a.sequence) return;
  unsigned kept = 0;
  if (key < a.keys && (!kCausal || kSegments || key <= query + a.ahead)) {
    const RandomStream stream = {a.draw_key[0], a.draw_key[1], static_cast<unsigned>(a.counter[0]), a.draw_tensor};
    const Index row = (a.head_first + sample * a.head_sample + head) * a.sequence + query;
    const unsigned long long element =
        static_cast<unsigned long long>(a.counter[1]) * static_cast<unsigned long long>(a.draws) +
        static_cast<unsigned long long>(row * a.keys + key);
    kept = kept_of_word(stream, element, a.draw_below << 16 | a.draw_below);
  }
  a.keep[(static_cast<Index>(sample) * a.heads + head) * a.sequence * a.keep_words + at] = kept;
}

// --- sums of the output's gradient ---

/// Sixteen threads a row, in the order of AVX-512: lane l adds elements l, l + 16, ..., then halves are added.
RAMET_KERNEL(256, attention_delta, AttentionArguments, a) {
  const int rows = a.batch * a.sequence * a.heads, lane = static_cast<int>(threadIdx.x) % 16;
  const int step = static_cast<int>(index_step()) / 16, rounds = (rows + step - 1) / step;
  int row = static_cast<int>(first_index()) / 16;
  for (int round = 0; round < rounds; ++round, row += step) {
    float sum = 0.0f;
    if (row < rows) {
      const Stored* dout = static_cast<const Stored*>(a.dout) + static_cast<Index>(row) * a.value_size;
      const Stored* out = static_cast<const Stored*>(a.out) + static_cast<Index>(row) * a.value_size;
      const int whole = (a.value_size + 15) / 16 * 16;
      for (int d = lane; d < whole; d += 16) {
        const bool there = d < a.value_size;
        sum = __fmaf_rn(there ? kStorage::widen(dout[d]) : 0.0f, there ? kStorage::widen(out[d]) : 0.0f, sum);
      }
    }
    RAMET_UNROLL
    for (int by = 8; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    if (row < rows && lane == 0) {
      const int position = row / a.heads, sample = position / a.sequence;
      a.delta[(static_cast<Index>(sample) * a.heads + row % a.heads) * a.sequence + position % a.sequence] = sum;
    }
  }
}

}  // namespace ramet_device
