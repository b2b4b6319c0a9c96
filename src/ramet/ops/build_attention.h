#pragma once

#include <cstdint>
#include <vector>

#include "ramet/base/host_tensor.h"
#include "ramet/ops/build.h"

namespace ramet::ops {

// Attention with masks and biases of many kinds, positions by rotation, and tables of relative positions.

/// What is added to the scores of an attention, and which keys a query sees, beside AttentionOptions. Scores are
/// [B, heads, S, T]; query q stands at position q among the keys, or at q + T - S with `bottom_right`.
struct ScoreOptions {
  Tensor key_mask{};  ///< i32 or bool [B, T], 0 = hidden
  Tensor mask{};      ///< i32 or bool of any shape that broadcasts to the scores, 0 = hidden; not with `key_mask`
  Tensor bias{};      ///< floating-point, broadcasts to the scores, to which it is added; -infinity hides
  /// f32[heads]: scores lose slope * |distance of query and key| (ALiBi, Press et al., arXiv 2108.12409). Constants: no
  /// gradient flows to them.
  Tensor slopes{};
  bool bottom_right = false;  ///< the last query stands at the last key, as with a prefix of keys computed before
  int64_t window_left = -1;   ///< hide keys more than so many positions before the query; -1: none
  int64_t window_right = -1;  ///< the same after the query
  double soft_cap = 0;        ///< scale q k^T becomes cap tanh(scale q k^T / cap), before bias and mask; 0: none
};

/// Fused attention of query [B, S, heads, D], key [B, T, key heads, D] and value [B, T, key heads, E] -> [B, S, heads,
/// E]. Neighbouring heads/key heads query heads share a head of keys (grouped heads; one head of keys: multi-query). Or
/// of a packed [B, S, 3, heads, D] alone. `options.causal` hides keys behind the query's position. A query that sees no
/// key gives 0, and has no gradient. The gradient of a bias that broadcasts is summed in f32 in an order that no layout
/// changes. `counter` is the scalar input i64[2], needed with dropout.
Tensor attention_with(Tensor query, Tensor key, Tensor value, const ScoreOptions& scores,
                      const AttentionOptions& options = {}, Tensor counter = {});

/// cached_attention (ops/build.h) with grouped heads, and with bias [B|1, heads|1, n|1, R|1], slopes, a window to the
/// left or a soft cap.
Tensor cached_attention(Tensor query, Tensor keys, Tensor values, Tensor first, double scale,
                        const ScoreOptions& scores);

// --- relative positions ---

/// ALiBi's slopes for so many heads: 2^(-8 i / n) for n a power of two, else those of the next lower power and every
/// other one of the next higher (Press et al., section 3 and their code).
std::vector<double> alibi_slopes(int64_t heads);

/// T5's bucket of each pair of a query and a key, i32 [queries, keys] in [0, buckets): half of the buckets are for
/// single distances, the others grow by a logarithm up to `max_distance`; without `bidirectional` all keys behind the
/// query share bucket 0 (Raffel et al., arXiv 1910.10683, section 2.1). The first query stands at `first_query`.
HostTensor t5_buckets(int64_t queries, int64_t keys, bool bidirectional, int64_t buckets = 32,
                      int64_t max_distance = 128, int64_t first_query = 0);
/// Swin's row in the table of relative places for each pair of places of a window of height x width places (row-major):
/// i32 [height width, height width] in [0, (2 height - 1)(2 width - 1)) (Liu et al., arXiv 2103.14030, equation 4).
HostTensor swin_places(int64_t height, int64_t width);
/// The bias [1, heads, S, T] (or [B, heads, S, T]) of a table [buckets, heads], a weight, by buckets i32 [S, T] (or
/// [B, S, T]).
Tensor relative_bias(Tensor table, Tensor buckets);

// --- rotary positions (Su et al., arXiv 2104.09864) ---

/// Cosines and sines of positions, f32 [positions, R / 2] where R elements of a head are rotated.
struct RotaryTables {
  Tensor cosine, sine;
};
/// Rotary frequencies base^(-2 i / rotated), i = 0 ... rotated / 2 - 1, as f32.
std::vector<double> rotary_frequencies(int64_t rotated, double base = 10000);
/// Tables of positions 0 to positions - 1: angles position * frequency, rounded to f32 as most published models have
/// them; `amplitude` multiplies cosines and sines (as YaRN does).
RotaryTables rotary_tables(GraphBuilder& builder, int64_t positions, const std::vector<double>& frequencies,
                           double amplitude = 1);
/// The rows of tables at positions i32 [S] or [B, S] -> [S, R / 2] or [B, S, R / 2].
RotaryTables rotary_rows(const RotaryTables& tables, Tensor positions);

/// Which elements of a head turn together.
enum class RotaryPairs {
  kHalves,     ///< i and i + R / 2, as GPT-NeoX and Llama
  kNeighbours  ///< 2 i and 2 i + 1, as GPT-J
};
/// a [B, S, heads, D] with the first R <= D elements of each head rotated by the angles of its position; cosine and
/// sine are [S, R / 2] or [B, S, R / 2] (rotary_rows, or rotary_tables of S positions). The gradient is the rotation
/// back.
Tensor rotary(Tensor a, const RotaryTables& angles, RotaryPairs pairs = RotaryPairs::kHalves);

}  // namespace ramet::ops
