// Attention forward: a block takes 64 queries of a head and walks over tiles of 128 keys, with a running maximum and
// sum of each row (FlashAttention-2, Dao, arXiv 2307.08691). Bit for bit what kernel/cpu/attention_forward.cc gives
// with AVX-512 and the products of kernel/hopper: a row's sum over a tile is sixteen chains, lane l of columns l, l +
// 16, ...

#include "attention.cuh"

namespace ramet_device {

/// Shared memory of a block, as kernel/cuda/attention.cc counts it.
struct ForwardMemory {
  Operand *query, *key, *value;
  float *key_terms, *factors;

  __device__ __forceinline__ explicit ForwardMemory(unsigned char* memory) {
    query = reinterpret_cast<Operand*>(memory);
    key = query + kRows * kPitch<kHeadSize>;
    value = key + kForwardKeys * kPitch<kHeadSize>;
    key_terms = reinterpret_cast<float*>(value + kForwardKeys * kPitch<kValueSize>);
    factors = key_terms + kForwardKeys;
  }
};

/// What a warp's thread knows of its two rows.
struct RowStates {
  float most[2], total[2];
};

/// Sums over the columns of both rows: lanes of four threads, each with four chains of a row.
__device__ __forceinline__ float sum_of_chains(const float (&chains)[2][2]) {
  float sums[2];
  RAMET_UNROLL
  for (int i = 0; i < 2; ++i) {
    sums[i] = chains[0][i] + chains[1][i];                // lanes 8 apart
    sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], 2);  // 4 apart
    sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], 1);
  }
  return sums[0] + sums[1];
}

__device__ __forceinline__ float greatest_of_row(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

/// One block's work on 64 queries.
class Forward {
 public:
  __device__ __forceinline__ Forward(const Arguments& arguments, const Place& at, const ForwardMemory& shared)
      : a(arguments), place(at), memory(shared) {
    ahead = kSegments ? 0 : a.ahead;
#if kCached
    ahead = a.first[place.sample];
    place.length = most_of(0, least(ahead + a.sequence, a.keys));
#endif
    const int own = ahead + place.first;
    seen = end_key(a, own + queries() - 1, place.length);
    first_tile = first_key(a, own) / kForwardKeys * kForwardKeys;
  }

  __device__ __forceinline__ void run() {
    float sums[kValueSize / 8][4];
    clear(sums);
    RowStates rows = {{-infinity(), -infinity()}, {0.0f, 0.0f}};
    load_tile<kRows, kHeadSize>(memory.query, static_cast<const Stored*>(a.query) + query_at(a, place, place.first),
                                a.query_stride, queries(), a.head_size);
    load_keys(first_tile);
    for (int key = first_tile; key < seen; key += kForwardKeys) {
      if (key_terms_needed(key)) write_key_terms(key);
      wait_for_copies<0>();
      __syncthreads();
      load_values(key);
      float scores[kForwardKeys / 8][4];
      multiply(key, scores);
      softmax(key, scores, rows, sums);
      wait_for_copies<0>();
      __syncthreads();
      load_keys(key + kForwardKeys);
      add_values(key, scores, sums);
    }
    wait_for_copies<0>();
    finish(rows, sums);
  }

 private:
  __device__ __forceinline__ int queries() const { return least(kRows, queries_of(a, place) - place.first); }
  /// Columns of the tile that begins at `key`: 64 or 128.
  __device__ __forceinline__ int columns_of(int key) const { return seen - key > kRows ? kForwardKeys : kRows; }
  /// A tile's rows of keys that are there: those that queries do not see take part, as they are.
  __device__ __forceinline__ int rows_of(int key) const { return least(columns_of(key), place.length - key); }

  __device__ __forceinline__ void load_keys(int key) const {
    if (key < seen)
      load_tile<kForwardKeys, kHeadSize>(memory.key, static_cast<const Stored*>(a.key) + key_at(a, place, key),
                                         a.key_stride, rows_of(key), a.head_size);
    commit_copies();
  }
  __device__ __forceinline__ void load_values(int key) const {
    load_tile<kForwardKeys, kValueSize>(memory.value, static_cast<const Stored*>(a.value) + value_at(a, place, key),
                                        a.value_stride, rows_of(key), a.value_size);
    commit_copies();
  }

  __device__ __forceinline__ bool key_terms_needed(int key) const {
    return kAdjusts || some_hidden(place, key, columns_of(key));
  }
  __device__ __forceinline__ void write_key_terms(int key) const {
    for (int i = static_cast<int>(threadIdx.x); i < kForwardKeys; i += kThreads)
      memory.key_terms[i] = key_term(a, place, key + i);
  }

  __device__ __forceinline__ void multiply(int key, float (&scores)[kForwardKeys / 8][4]) const {
    const Operand* query = memory.query + warp_index() * 16 * kPitch<kHeadSize>;
    RAMET_UNROLL
    for (int half = 0; half < 2; ++half) {
      if (half == 1 && columns_of(key) == kRows) break;
      float part[kRows / 8][4];
      multiply_rows<kHeadSize>(part, query, memory.key + half * kRows * kPitch<kHeadSize>, a.head_size);
      RAMET_UNROLL
      for (int n = 0; n < kRows / 8; ++n) {
        RAMET_UNROLL
        for (int i = 0; i < 4; ++i) scores[half * (kRows / 8) + n][i] = part[n][i];
      }
    }
    if (columns_of(key) == kForwardKeys) return;
    RAMET_UNROLL
    for (int n = kRows / 8; n < kForwardKeys / 8; ++n) {
      RAMET_UNROLL
      for (int i = 0; i < 4; ++i) scores[n][i] = 0.0f;
    }
  }

  /// Position of this thread's upper row among the keys.
  __device__ __forceinline__ int own() const { return ahead + place.first + warp_index() * 16 + group_row(); }

  /// Products of queries and keys to scores, -infinity where a query does not see a key.
  __device__ __forceinline__ void make_scores(int key, float (&scores)[kForwardKeys / 8][4]) const {
    const int columns = columns_of(key);
#if kAdjusts
    const int query = own() - ahead;
    const ScoreRow rows[2] = {{a, place, query, own()}, {a, place, query + 8, own() + 8}};
    RAMET_UNROLL
    for (int n = 0; n < kForwardKeys / 8; ++n) {
      RAMET_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int column = n * 8 + pair_column() + i % 2;
        float slope;
        const float term = rows[i / 2].term(a, key + column, memory.key_terms[column]);
        scores[n][i] = column < columns ? adjusted_score(a, scores[n][i], term, slope) : -infinity();
      }
    }
#else
    const bool hides = key_terms_needed(key),
               crosses = (kCausal && ahead + place.first < key + columns) || columns == kRows;
    RAMET_UNROLL
    for (int n = 0; n < kForwardKeys / 8; ++n) {
      RAMET_UNROLL
      for (int i = 0; i < 4; ++i) scores[n][i] *= a.scale;
      if (!hides) continue;
      const TwoFloats terms = *reinterpret_cast<const TwoFloats*>(memory.key_terms + n * 8 + pair_column());
      RAMET_UNROLL
      for (int i = 0; i < 4; ++i) scores[n][i] += terms.at[i % 2];
    }
    if (!crosses) return;
    const int limit = columns - 1,
              last[2] = {kCausal ? least(own() - key, limit) : limit, kCausal ? least(own() + 8 - key, limit) : limit};
    RAMET_UNROLL
    for (int n = 0; n < kForwardKeys / 8; ++n) {
      RAMET_UNROLL
      for (int i = 0; i < 4; ++i)
        if (n * 8 + pair_column() + i % 2 > last[i / 2]) scores[n][i] = -infinity();
    }
#endif
  }

  /// Scores to probabilities, some of them dropped; what was summed before is scaled to the new maximum.
  __device__ __forceinline__ void softmax(int key, float (&scores)[kForwardKeys / 8][4], RowStates& rows,
                                          float (&sums)[kValueSize / 8][4]) const {
#if kDropout
    Bytes16 keep[2];
    RAMET_UNROLL
    for (int row = 0; row < 2; ++row) {
      const int query = least(place.first + warp_index() * 16 + group_row() + row * 8, place.first + queries() - 1);
      keep[row] =
          reinterpret_cast<const Bytes16*>(a.keep + query_row(a, place, query) * a.keep_words)[key / kForwardKeys];
    }
#endif
    make_scores(key, scores);
    float shift[2], ratio[2];
    RAMET_UNROLL
    for (int row = 0; row < 2; ++row) {
      float greatest = -infinity();
      RAMET_UNROLL
      for (int n = 0; n < kForwardKeys / 8; ++n)
        greatest = fmaxf(greatest, fmaxf(scores[n][row * 2], scores[n][row * 2 + 1]));
      const float before = rows.most[row], now = fmaxf(before, greatest_of_row(greatest));
      // A row that sees nothing yet subtracts 0: its probabilities are then exp(-inf) = 0, not NaN.
      shift[row] = now == -infinity() ? 0.0f : now;
      ratio[row] = now != before && before != -infinity() ? exp_negative(before - now) : 1.0f;
      rows.most[row] = now;
    }
    float chains[2][2][2] = {};  // of each row: of even and odd eights of columns
    RAMET_UNROLL
    for (int n = 0; n < kForwardKeys / 8; ++n) {
      RAMET_UNROLL
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = exp_negative(scores[n][i] - shift[i / 2]);
        chains[i / 2][n % 2][i % 2] += scores[n][i];
      }
    }
    RAMET_UNROLL
    for (int row = 0; row < 2; ++row)
      rows.total[row] = __fmaf_rn(rows.total[row], ratio[row], sum_of_chains(chains[row]));
    if (key != first_tile) {
      RAMET_UNROLL
      for (int n = 0; n < kValueSize / 8; ++n) {
        RAMET_UNROLL
        for (int i = 0; i < 4; ++i) sums[n][i] *= ratio[i / 2];
      }
    }
#if kDropout
    drop(keep, scores);
#endif
  }

  /// The product of the probabilities, some of them dropped, and v.
  __device__ __forceinline__ void add_values(int key, const float (&scores)[kForwardKeys / 8][4],
                                             float (&sums)[kValueSize / 8][4]) const {
    RAMET_UNROLL
    for (int half = 0; half < 2; ++half) {
      if (half == 1 && columns_of(key) == kRows) break;
      LeftFactor<kRows> factor(memory.factors);
      RAMET_UNROLL
      for (int n = 0; n < kRows / 8; ++n) factor.set(n, scores[half * (kRows / 8) + n]);
      factor.template multiply_add_to<kValueSize>(sums, memory.value + half * kRows * kPitch<kValueSize>, kRows);
    }
  }

#if kDropout
  __device__ __forceinline__ void drop(const Bytes16 (&keep)[2], float (&scores)[kForwardKeys / 8][4]) const {
    RAMET_UNROLL
    for (int word = 0; word < 4; ++word) {
      const unsigned bits[2] = {keep[0].words[word] >> pair_column() / 2, keep[1].words[word] >> pair_column() / 2};
      RAMET_UNROLL
      for (int n = 0; n < 4; ++n) {
        RAMET_UNROLL
        for (int i = 0; i < 4; ++i) {
          float& p = scores[word * 4 + n][i];
          p = (bits[i / 2] >> (n * 4 + i % 2 * 16) & 1u) != 0u ? p * a.draw_factor : 0.0f;
        }
      }
    }
  }
#endif

  __device__ __forceinline__ void finish(const RowStates& rows, const float (&sums)[kValueSize / 8][4]) const {
    float inverse[2];
    RAMET_UNROLL
    for (int row = 0; row < 2; ++row) {
      const float total = rows.total[row];
      inverse[row] = total == 0.0f ? 0.0f : __fdiv_rn(1.0f, total);
      const int at = warp_index() * 16 + group_row() + row * 8;
      if (a.lse != nullptr && pair_column() == 0 && at < queries())
        a.lse[query_row(a, place, place.first + at)] = total == 0.0f ? -infinity() : rows.most[row] + log_of(total);
    }
    store_sums<kValueSize>(sums, inverse, static_cast<Stored*>(a.out) + out_at(a, place, place.first), out_stride(a),
                           queries(), a.value_size);
  }

  const Arguments& a;
  Place place;
  ForwardMemory memory;
  int ahead, seen, first_tile;
};

/// Rows of padding: zeros, and nothing seen.
__device__ __forceinline__ void write_padding(const Arguments& a, const Place& place) {
  const int rows = least(kRows, place.length - place.first);
  for (int i = static_cast<int>(threadIdx.x); i < rows * a.value_size; i += kThreads)
    static_cast<Stored*>(a.out)[out_at(a, place, place.first + i / a.value_size) + i % a.value_size] = Stored(0);
  for (int i = static_cast<int>(threadIdx.x); i < rows; i += kThreads)
    a.lse[query_row(a, place, place.first + i)] = -infinity();
}

#ifdef RAMET_FAKE_CUDA
#define RAMET_FORWARD_BOUNDS 128
#else
#define RAMET_FORWARD_BOUNDS 128, kForwardBlocks
#endif

RAMET_KERNEL(RAMET_FORWARD_BOUNDS, attention_forward, AttentionArguments, a) {
  RAMET_DYNAMIC_SHARED(memory);
  const int sample = static_cast<int>(blockIdx.z), head = static_cast<int>(blockIdx.y);
  const int tiles = count_tiles(a, sample, a.sequence);
  for (int i = static_cast<int>(blockIdx.x); i < tiles; i += static_cast<int>(gridDim.x)) {
    // Under a causal mask the last tiles have the most work: they begin first.
    const Place place = place_of(a, sample, head, kCausal ? tiles - 1 - i : i);
    if (place.padding)
      write_padding(a, place);
    else
      Forward(a, place, ForwardMemory(memory)).run();
    if (!kSegments) break;  // there is a block for each tile
    __syncthreads();
  }
}

}  // namespace ramet_device
