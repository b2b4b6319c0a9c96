// Attention backward without atomic additions: one kernel sums dk and dv over the queries, one dq over the keys, and
// one the bias's gradient over samples and heads; each makes the scores and their gradients again. Bit for bit what
// kernel/cpu/attention_backward.cc gives with AVX-512 and the products of kernel/hopper: each sum is one chain in order
// of queries (heads that share keys one after another), or of keys; which of them take part goes by 64 of either.

#include "attention.cuh"

namespace ramet_device {

constexpr int kStep = 32;  // columns of scores at a time

/// The queries [first, end) that may see keys of the 64 from `key` on, multiples of 64.
__device__ __forceinline__ int first_query(const Arguments& a, int key) {
  if (!kCausal && a.right < 0) return 0;
  return most_of(0, key - (kCausal ? 0 : a.right) - a.ahead) / kRows * kRows;
}
__device__ __forceinline__ int end_query(const Arguments& a, const Place& place, int key) {
  const int queries = (queries_of(a, place) + kRows - 1) / kRows * kRows;
  if (a.left < 0) return queries;
  const int end = most_of(0, least(key + kRows, place.length) + a.left - a.ahead + kRows - 1) / kRows * kRows;
  return least(queries, end);
}
/// The keys [first, end) whose blocks take the 64 queries from `query` on, by the same rule; `first` is a multiple
/// of 64.
__device__ __forceinline__ int first_key_of(const Arguments& a, const Place& place, int query) {
  if (a.left < 0) return 0;
  const int least_end = query + 1 - a.left + a.ahead;  // of a block
  if (least_end > place.length) return place.length;
  return most_of(0, least_end - 1) / kRows * kRows;
}
__device__ __forceinline__ int end_key_of(const Arguments& a, const Place& place, int query) {
  if (!kCausal && a.right < 0) return place.length;
  const int last = query + kRows - 1 + (kCausal ? 0 : a.right) + a.ahead;  // first key of the last block
  return last < 0 ? 0 : least(place.length, last / kRows * kRows + kRows);
}

/// What a query's log-sum-exp is subtracted as: queries that saw nothing, and those behind the last, subtract infinity.
__device__ __forceinline__ float subtracted(const Arguments& a, const Place& place, int query) {
  if (query >= queries_of(a, place)) return infinity();
  const float lse = a.lse[query_row(a, place, query)];
  return lse == -infinity() ? infinity() : lse;
}
__device__ __forceinline__ float delta_of(const Arguments& a, const Place& place, int query) {
  return query < queries_of(a, place) ? a.delta[query_row(a, place, query)] : 0.0f;
}

/// What one element of a tile adds to the gradients.
struct Gradients {
  float dropped;   ///< the probability that dv is made of
  float dscore;    ///< of the score, before the soft cap's derivative
  float dproduct;  ///< of the product of query and key, but for the scale
};

/// A query's part in it, and what the element itself is.
struct QueryTerms {
  float lse, delta;
};
struct Element {
  float product, dp, term;    ///< q k, dout v; what is added to the score, where scores are adjusted
  bool unseen, hidden, keep;  ///< the key from the query; the key from all; dropout keeps it
};

__device__ __forceinline__ Gradients gradients_of(const Arguments& a, const QueryTerms& query, const Element& element) {
  float slope = 1.0f;
#if kAdjusts
  float exponent = adjusted_score(a, element.product, element.term, slope) - query.lse;
#else
  float exponent = __fmaf_rn(element.product, a.scale, -query.lse);
#endif
  if (element.unseen || element.hidden) exponent = -infinity();
  const float p = exp_negative(exponent);
#if kDropout
  const float factor = element.keep ? a.draw_factor : 0.0f;
  const float dropped = p * factor, dp = element.dp * factor;
#else
  const float dropped = p, dp = element.dp;
#endif
  const float dscore = element.hidden ? 0.0f : p * (dp - query.delta);
  return {dropped, dscore, kAdjusts && a.cap > 0.0f ? dscore * slope : dscore};
}

// --- dk and dv ---

/// One block's work on 64 keys: sums over the queries of all heads that share them.
class KeyGradients {
 public:
  __device__ __forceinline__ KeyGradients(const Arguments& arguments, const Place& at, unsigned char* memory)
      : a(arguments), place(at) {
    keys = reinterpret_cast<Operand*>(memory);
    values = keys + kRows * kPitch<kHeadSize>;
    queries = values + kRows * kPitch<kValueSize>;
    douts = queries + 2 * kRows * kPitch<kHeadSize>;
    lse = reinterpret_cast<float*>(douts + 2 * kRows * kPitch<kValueSize>);
    delta = lse + 2 * kRows;
    keep = reinterpret_cast<unsigned*>(delta + 2 * kRows);
    factors = reinterpret_cast<float*>(keep + 4 * kRows);
    first = first_query(a, place.first);
    end = end_query(a, place, place.first);
  }

  __device__ __forceinline__ void run() {
    const int there = least(kRows, place.length - place.first);
    float dkey[kHeadSize / 8][4], dvalue[kValueSize / 8][4];
    clear(dkey);
    clear(dvalue);
#if kKeyMask
    hidden_[0] = key_term(a, place, key_row()) != 0.0f;
    hidden_[1] = key_term(a, place, key_row() + 8) != 0.0f;
#endif
    load_tile<kRows, kHeadSize>(keys, static_cast<const Stored*>(a.key) + key_at(a, place, place.first), a.key_stride,
                                there, a.head_size);
    load_tile<kRows, kValueSize>(values, static_cast<const Stored*>(a.value) + value_at(a, place, place.first),
                                 a.value_stride, there, a.value_size);
    const int heads = place.head + a.heads / a.key_heads;  // end of the group
    QueryTile tile = {first < end ? place.head : heads, first, 0};
    if (tile.head < heads) {
      begin_tile(tile);
      write_statistics(tile, read_statistics(tile));
    }
    commit_copies();
    while (tile.head < heads) {
      wait_for_copies<0>();
      __syncthreads();
      const QueryTile next = behind(tile);
      Statistics coming = {};
      if (next.head < heads) {
        begin_tile(next);
        coming = read_statistics(next);
      }
      commit_copies();
      for (int half = 0; half < kRows; half += kStep) add_columns(tile, half, dkey, dvalue);
      tile = next;
      if (tile.head < heads) write_statistics(tile, coming);
    }
    wait_for_copies<0>();
    const float scales[2] = {a.scale, a.scale}, ones[2] = {1.0f, 1.0f};
    store_sums<kHeadSize>(dkey, scales, static_cast<Stored*>(a.dkey) + key_at(a, place, place.first), a.key_stride,
                          there, a.head_size);
    store_sums<kValueSize>(dvalue, ones, static_cast<Stored*>(a.dvalue) + value_at(a, place, place.first),
                           a.value_stride, there, a.value_size);
  }

 private:
  /// What a thread brings of the queries of a tile: lse or delta, and half of the bits of dropout of one of them.
  struct Statistics {
    float value;
    unsigned keep;
  };

  /// This thread's upper row of keys, and whether that (or the lower one) is hidden.
  __device__ __forceinline__ int key_row() const { return place.first + warp_index() * 16 + group_row(); }
  __device__ __forceinline__ bool hidden(int which) const {
#if kKeyMask
    return hidden_[which];
#else
    return key_row() + which * 8 >= place.length;
#endif
  }

  /// 64 queries of a head of the group, and the buffer that they are in.
  struct QueryTile {
    int head, query, buffer;
  };
  __device__ __forceinline__ QueryTile behind(const QueryTile& tile) const {
    const bool more = tile.query + kRows < end;
    return {more ? tile.head : tile.head + 1, more ? tile.query + kRows : first, tile.buffer ^ 1};
  }
  __device__ __forceinline__ Place tile_place(const QueryTile& tile) const {
    Place at = place;
    at.head = tile.head;
    return at;
  }

  __device__ __forceinline__ void begin_tile(const QueryTile& tile) const {
    const Place at = tile_place(tile);
    const int query = tile.query, there = least(kRows, queries_of(a, place) - query);
    load_tile<kRows, kHeadSize>(queries + tile.buffer * kRows * kPitch<kHeadSize>,
                                static_cast<const Stored*>(a.query) + query_at(a, at, query), a.query_stride, there,
                                a.head_size);
    load_tile<kRows, kValueSize>(douts + tile.buffer * kRows * kPitch<kValueSize>,
                                 static_cast<const Stored*>(a.dout) + out_at(a, at, query), out_stride(a), there,
                                 a.value_size);
  }
  __device__ __forceinline__ Statistics read_statistics(const QueryTile& tile) const {
    const Place at = tile_place(tile);
    const int query = tile.query + static_cast<int>(threadIdx.x) % kRows, which = static_cast<int>(threadIdx.x) / kRows;
    Statistics read = {which == 0 ? subtracted(a, at, query) : delta_of(a, at, query), 0u};
#if kDropout
    if (query < queries_of(a, place))
      read.keep = a.keep[query_row(a, at, query) * a.keep_words + place.first / 32 + which];
#endif
    return read;
  }
  __device__ __forceinline__ void write_statistics(const QueryTile& tile, const Statistics& read) const {
    const int row = static_cast<int>(threadIdx.x) % kRows, which = static_cast<int>(threadIdx.x) / kRows;
    (which == 0 ? lse : delta)[tile.buffer * kRows + row] = read.value;
    keep[(tile.buffer * 2 + which) * kRows + row] = read.keep;
  }

  /// Adds what the tile's queries [half, half + kStep) give.
  __device__ __forceinline__ void add_columns(const QueryTile& tile, int half, float (&dkey)[kHeadSize / 8][4],
                                              float (&dvalue)[kValueSize / 8][4]) const {
    const Operand* query = queries + (tile.buffer * kRows + half) * kPitch<kHeadSize>;
    const Operand* dout = douts + (tile.buffer * kRows + half) * kPitch<kValueSize>;
    float products[kStep / 8][4], dps[kStep / 8][4];
    multiply_rows<kHeadSize>(products, keys + warp_index() * 16 * kPitch<kHeadSize>, query, a.head_size);
    multiply_rows<kValueSize>(dps, values + warp_index() * 16 * kPitch<kValueSize>, dout, a.value_size);
    const int begin = tile.query + half;
    if (kKeyMask || place.first + kRows > place.length || (kCausal && begin + a.ahead < place.first + kRows))
      solve<true>(tile, half, products, dps);
    else
      solve<false>(tile, half, products, dps);
    LeftFactor<kStep> factor(factors);
    RAMET_UNROLL
    for (int n = 0; n < kStep / 8; ++n) factor.set(n, products[n]);
    factor.template multiply_add_to<kValueSize>(dvalue, dout, kStep);
    RAMET_UNROLL
    for (int n = 0; n < kStep / 8; ++n) factor.set(n, dps[n]);
    factor.template multiply_add_to<kHeadSize>(dkey, query, kStep);
  }

  /// Products to probabilities, dp to gradients of products; `kChecks` where not every query sees every key.
  template <bool kChecks>
  __device__ __forceinline__ void solve(const QueryTile& tile, int half, float (&products)[kStep / 8][4],
                                        float (&dps)[kStep / 8][4]) const {
    const int begin = tile.query + half;
    RAMET_UNROLL
    for (int n = 0; n < kStep / 8; ++n) {
      const int column = n * 8 + pair_column(), at = tile.buffer * kRows + half + column;
      const TwoFloats lses = *reinterpret_cast<const TwoFloats*>(lse + at);
      const TwoFloats deltas = *reinterpret_cast<const TwoFloats*>(delta + at);
      unsigned bits[2] = {};
#if kDropout
      const unsigned* words = keep + (tile.buffer * 2 + warp_index() / 2) * kRows + half + column;
      const int shift = group_row() % 2 * 16 + warp_index() % 2 * 8 + group_row() / 2;
      bits[0] = words[0] >> shift, bits[1] = words[1] >> shift;
#endif
      RAMET_UNROLL
      for (int e = 0; e < 4; ++e) {
        const int key = key_row() + e / 2 * 8, own = begin + column + e % 2 + a.ahead;
        Element element = {products[n][e],
                           dps[n][e],
                           0.0f,
                           kChecks && kCausal && own < key,
                           kChecks && hidden(e / 2),
                           (bits[e % 2] >> (e / 2 * 4) & 1u) != 0u};
#if kAdjusts
        const ScoreRow row(a, tile_place(tile), begin + column + e % 2, own);
        element.term = row.term(a, key, hidden(e / 2) ? -infinity() : 0.0f);
#endif
        const Gradients found = gradients_of(a, {lses.at[e % 2], deltas.at[e % 2]}, element);
        products[n][e] = found.dropped;
        dps[n][e] = found.dproduct;
      }
    }
  }

  const Arguments& a;
  Place place;  ///< of the keys; the head is the group's first
  Operand *keys, *values, *queries, *douts;
  float *lse, *delta, *factors;
  unsigned* keep;
  int first, end;  ///< queries that may see the keys
#if kKeyMask
  bool hidden_[2];
#endif
};

// --- dq, and the bias's gradient ---

/// What a warp's thread knows of its two queries and of its columns' keys, to find gradients of scores.
class QueryRows {
 public:
  __device__ __forceinline__ QueryRows(const Arguments& arguments, const Place& at) : a(arguments), place(at) {
    query = place.first + warp_index() * 16 + group_row();
    RAMET_UNROLL
    for (int row = 0; row < 2; ++row)
      terms[row] = {subtracted(a, place, query + row * 8), delta_of(a, place, query + row * 8)};
  }

  /// Where the bits of dropout of the 32 keys from `key` on are; queries behind the last have none.
  __device__ __forceinline__ void read_keep(int key) {
#if kDropout
    RAMET_UNROLL
    for (int row = 0; row < 2; ++row)
      keep[row] = query + row * 8 < queries_of(a, place)
                      ? a.keep[query_row(a, place, query + row * 8) * a.keep_words + key / 32] >> pair_column() / 2
                      : 0u;
#else
    (void)key;
#endif
  }

  /// Gradients of the scores of the kStep keys from `key` on, from products and dp, to both of these: that of the score
  /// takes the place of the product, that of the product the place of dp.
  template <bool kChecks>
  __device__ __forceinline__ void solve(int key, const float* key_terms, float (&products)[kStep / 8][4],
                                        float (&dps)[kStep / 8][4]) const {
    RAMET_UNROLL
    for (int n = 0; n < kStep / 8; ++n) {
      const int column = n * 8 + pair_column();
      TwoFloats hides = {};
      if (kChecks) hides = *reinterpret_cast<const TwoFloats*>(key_terms + column);
      RAMET_UNROLL
      for (int e = 0; e < 4; ++e) {
        const int own = query + e / 2 * 8 + a.ahead, at = key + column + e % 2;
        Element element = {products[n][e],
                           dps[n][e],
                           0.0f,
                           kChecks && kCausal && own < at,
                           kChecks && hides.at[e % 2] != 0.0f,
                           (keep[e / 2] >> (n * 4 + e % 2 * 16) & 1u) != 0u};
#if kAdjusts
        const ScoreRow row(a, place, query + e / 2 * 8, own);
        element.term = row.term(a, at, element.hidden ? -infinity() : 0.0f);
#endif
        const Gradients found = gradients_of(a, terms[e / 2], element);
        products[n][e] = found.dscore;
        dps[n][e] = found.dproduct;
      }
    }
  }
  __device__ __forceinline__ bool checks(int key) const {
    return kAdjusts || kKeyMask || key + kStep > place.length || (kCausal && place.first + a.ahead < key + kStep);
  }

 private:
  const Arguments& a;
  Place place;
  int query;
  QueryTerms terms[2];
  unsigned keep[2] = {};
};

/// Shared memory of both: 64 queries with their dout, two tiles of 64 keys and values, terms of those keys.
struct QueryMemory {
  Operand *queries, *douts, *keys, *values;
  float *key_terms, *factors;
  __device__ __forceinline__ explicit QueryMemory(unsigned char* memory) {
    queries = reinterpret_cast<Operand*>(memory);
    douts = queries + kRows * kPitch<kHeadSize>;
    keys = douts + kRows * kPitch<kValueSize>;
    values = keys + 2 * kRows * kPitch<kHeadSize>;
    key_terms = reinterpret_cast<float*>(values + 2 * kRows * kPitch<kValueSize>);
    factors = key_terms + 2 * kRows;
  }

  __device__ __forceinline__ void load_queries(const Arguments& a, const Place& place) const {
    const int there = least(kRows, queries_of(a, place) - place.first);
    load_tile<kRows, kHeadSize>(queries, static_cast<const Stored*>(a.query) + query_at(a, place, place.first),
                                a.query_stride, there, a.head_size);
    load_tile<kRows, kValueSize>(douts, static_cast<const Stored*>(a.dout) + out_at(a, place, place.first),
                                 out_stride(a), there, a.value_size);
  }
  __device__ __forceinline__ void load_keys(const Arguments& a, const Place& place, int key, int buffer) const {
    const int there = least(kRows, place.length - key);
    load_tile<kRows, kHeadSize>(keys + buffer * kRows * kPitch<kHeadSize>,
                                static_cast<const Stored*>(a.key) + key_at(a, place, key), a.key_stride, there,
                                a.head_size);
    load_tile<kRows, kValueSize>(values + buffer * kRows * kPitch<kValueSize>,
                                 static_cast<const Stored*>(a.value) + value_at(a, place, key), a.value_stride, there,
                                 a.value_size);
    const int at = static_cast<int>(threadIdx.x);
    if (at < kRows) key_terms[buffer * kRows + at] = key_term(a, place, key + at);
  }

  /// Products of the warp's queries and the kStep keys that begin at `column` of the buffer, and of dout and values.
  __device__ __forceinline__ void multiply(const Arguments& a, int buffer, int column, float (&products)[kStep / 8][4],
                                           float (&dps)[kStep / 8][4]) const {
    multiply_rows<kHeadSize>(products, queries + warp_index() * 16 * kPitch<kHeadSize>,
                             keys + (buffer * kRows + column) * kPitch<kHeadSize>, a.head_size);
    multiply_rows<kValueSize>(dps, douts + warp_index() * 16 * kPitch<kValueSize>,
                              values + (buffer * kRows + column) * kPitch<kValueSize>, a.value_size);
  }
};

/// Scores' gradients of the warp's queries and the kStep keys that begin at `column` of the tile at `key`.
__device__ __forceinline__ void solve_columns(const Arguments& a, const QueryMemory& memory, QueryRows& rows, int key,
                                              int buffer, int column, float (&products)[kStep / 8][4],
                                              float (&dps)[kStep / 8][4]) {
  rows.read_keep(key + column);
  memory.multiply(a, buffer, column, products, dps);
  const float* terms = memory.key_terms + buffer * kRows + column;
  if (rows.checks(key + column))
    rows.solve<true>(key + column, terms, products, dps);
  else
    rows.solve<false>(key + column, terms, products, dps);
}

/// dq of 64 queries.
__device__ __forceinline__ void query_gradients(const Arguments& a, const Place& place, unsigned char* bytes) {
  const QueryMemory memory(bytes);
  const int end = end_key_of(a, place, place.first), begin = first_key_of(a, place, place.first);
  float dquery[kHeadSize / 8][4];
  clear(dquery);
  QueryRows rows(a, place);
  memory.load_queries(a, place);
  if (begin < end) memory.load_keys(a, place, begin, 0);
  commit_copies();
  for (int key = begin, buffer = 0; key < end; key += kRows, buffer ^= 1) {
    wait_for_copies<0>();
    __syncthreads();
    if (key + kRows < end) memory.load_keys(a, place, key + kRows, buffer ^ 1);
    commit_copies();
    for (int column = 0; column < kRows; column += kStep) {
      float products[kStep / 8][4], dps[kStep / 8][4];
      solve_columns(a, memory, rows, key, buffer, column, products, dps);
      LeftFactor<kStep> factor(memory.factors);
      RAMET_UNROLL
      for (int n = 0; n < kStep / 8; ++n) factor.set(n, dps[n]);
      factor.template multiply_add_to<kHeadSize>(dquery, memory.keys + (buffer * kRows + column) * kPitch<kHeadSize>,
                                                 place.length - key - column);
    }
  }
  wait_for_copies<0>();
  const float scales[2] = {a.scale, a.scale};
  store_sums<kHeadSize>(dquery, scales, static_cast<Stored*>(a.dquery) + query_at(a, place, place.first),
                        a.query_stride, least(kRows, queries_of(a, place) - place.first), a.head_size);
}

/// The bias's gradient of 64 queries and kStep keys: sums over a block of samples, and over a set of heads.
__device__ __forceinline__ void bias_gradients(const Arguments& a, int block, int set, int query, int key,
                                               unsigned char* bytes) {
  const QueryMemory memory(bytes);
  const int heads = a.heads / a.head_sets;
  const int begin = static_cast<int>(static_cast<Index>(block) * a.batch / a.sample_blocks);
  int end = static_cast<int>(static_cast<Index>(block + 1) * a.batch / a.sample_blocks);
  float sums[kStep / 8][4];
  clear(sums);
  const int tile = key / kRows * kRows;
  if (query < first_query(a, tile) || query >= end_query(a, {0, 0, 0, a.keys, query, false}, tile)) end = begin;
  for (int i = begin * heads; i < end * heads; ++i) {
    const Place place = {i / heads, set * heads + i % heads, 0, a.keys, query, false};
    QueryRows rows(a, place);
    __syncthreads();
    memory.load_queries(a, place);
    memory.load_keys(a, place, tile, 0);
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
    float products[kStep / 8][4], dps[kStep / 8][4];
    solve_columns(a, memory, rows, tile, 0, key - tile, products, dps);
    RAMET_UNROLL
    for (int n = 0; n < kStep / 8; ++n) {
      RAMET_UNROLL
      for (int e = 0; e < 4; ++e) sums[n][e] += products[n][e];
    }
  }
  float* to = a.dbias + (static_cast<Index>(block) * a.head_sets + set) * a.sequence * a.keys;
  RAMET_UNROLL
  for (int n = 0; n < kStep / 8; ++n) {
    RAMET_UNROLL
    for (int e = 0; e < 4; ++e) {
      const int row = query + warp_index() * 16 + group_row() + e / 2 * 8, column = key + n * 8 + pair_column() + e % 2;
      if (row < a.sequence && column < a.keys) to[static_cast<Index>(row) * a.keys + column] = sums[n][e];
    }
  }
}

/// Padding has no gradient. `stride` is between positions.
__device__ __forceinline__ void clear_rows(Stored* to, int stride, int rows, int size) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * size; i += kThreads)
    to[i / size * stride + i % size] = Stored(0);
}

#ifdef RAMET_FAKE_CUDA
#define RAMET_BACKWARD_BOUNDS 128
#else
#define RAMET_BACKWARD_BOUNDS 128, kBackwardBlocks
#endif

/// dk and dv: blocks of 64 keys (x), heads of keys (y), samples (z).
RAMET_KERNEL(RAMET_BACKWARD_BOUNDS, attention_dkey, AttentionArguments, a) {
  RAMET_DYNAMIC_SHARED(memory);
  const int sample = static_cast<int>(blockIdx.z), head = static_cast<int>(blockIdx.y) * (a.heads / a.key_heads);
  const int tiles = count_tiles(a, sample, a.keys);
  for (int i = static_cast<int>(blockIdx.x); i < tiles; i += static_cast<int>(gridDim.x)) {
    const Place place = place_of(a, sample, head, i);
    if (place.padding) {
      const int rows = least(kRows, place.length - place.first);
      clear_rows(static_cast<Stored*>(a.dkey) + key_at(a, place, place.first), a.key_stride, rows, a.head_size);
      clear_rows(static_cast<Stored*>(a.dvalue) + value_at(a, place, place.first), a.value_stride, rows, a.value_size);
    } else {
      KeyGradients(a, place, memory).run();
    }
    if (!kSegments) break;  // there is a block for each tile
    __syncthreads();
  }
}

/// dq: blocks of 64 queries (x), heads (y), samples (z).
RAMET_KERNEL(RAMET_BACKWARD_BOUNDS, attention_dquery, AttentionArguments, a) {
  RAMET_DYNAMIC_SHARED(memory);
  const int sample = static_cast<int>(blockIdx.z), head = static_cast<int>(blockIdx.y);
  const int tiles = count_tiles(a, sample, a.sequence);
  for (int i = static_cast<int>(blockIdx.x); i < tiles; i += static_cast<int>(gridDim.x)) {
    // Under a causal mask the last tiles have the most work: they begin first.
    const Place place = place_of(a, sample, head, kCausal ? tiles - 1 - i : i);
    if (place.padding)
      clear_rows(static_cast<Stored*>(a.dquery) + query_at(a, place, place.first), a.query_stride,
                 least(kRows, place.length - place.first), a.head_size);
    else
      query_gradients(a, place, memory);
    if (!kSegments) break;  // there is a block for each tile
    __syncthreads();
  }
}

#if kAdjusts
/// The bias's gradient: 64 queries by kStep keys (x), sets of heads (y), blocks of samples (z).
RAMET_KERNEL(RAMET_BACKWARD_BOUNDS, attention_dbias, AttentionArguments, a) {
  RAMET_DYNAMIC_SHARED(memory);
  const int across = (a.keys + kStep - 1) / kStep, tile = static_cast<int>(blockIdx.x);
  bias_gradients(a, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y), tile / across * kRows,
                 tile % across * kStep, memory);
}
#endif

}  // namespace ramet_device
