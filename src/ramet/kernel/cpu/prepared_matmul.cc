#include "ramet/kernel/cpu/prepared_matmul.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/amx_product.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/guard.h"
#include "ramet/kernel/cpu/matmul_plain.h"
#include "ramet/kernel/cpu/onednn.h"
#include "ramet/kernel/cpu/panel_product.h"
#include "ramet/kernel/cpu/strided_pairs.h"
#include "ramet/kernel/cpu/strided_product.h"
#include "ramet/kernel/cpu/zero_rows.h"
#include "ramet/kernel/hopper/product.h"

namespace ramet::kernel {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kRowGrain = 16;            // threads' shares of rows are cut at multiples of it
constexpr int64_t kStridedGrain = 2;         // the same of products of f32 that are read as they lie
constexpr int64_t kBlockBytes = 2 << 20;     // of a copied block of a, in the third-level cache
constexpr int64_t kCopiedGrain = 64;         // rows of such a block: transposing is fast in whole groups of them
constexpr int64_t kCopiedMost = 256;         // of its rows
constexpr int64_t kSharedLeast = 512;        // rows a thread from which on threads take pieces of rows in turn
constexpr int64_t kPieceLeast = 64;          // rows of such a piece
constexpr int64_t kBufferedColumns = 512;    // of a block of sums
constexpr int64_t kTileColumns = 256;        // the same of tiles
constexpr int64_t kTileStrips = 8;           // of a block of rows of tiles
constexpr int64_t kSharedRows = 256;         // least k of a block of columns that threads share
constexpr int64_t kPackedColumns = 128;      // least columns that are worth packing rows for
constexpr int64_t kResultBytes = 256 << 10;  // of a block of rows that an epilogue reads again
constexpr int64_t kStridedMost = 320;        // rows and columns of products that copies would cost more than they gain
constexpr int64_t kSkippedRows = 128;        // least rows of a product that leaves rows of zeros out
constexpr int64_t kFilledPieces[] = {128, 32, kZeroGroup};  // rows that are multiplied at once then

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }
int64_t round_down(int64_t value, int64_t step) { return std::max(step, value / step * step); }

/// A range [begin, end).
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

/// The rank-th of `parts` contiguous parts of [0, count), cut at multiples of `grain`.
Range part(int64_t count, int64_t grain, int rank, int parts) {
  const int64_t blocks = (count + grain - 1) / grain;
  return {std::min(count, blocks * rank / parts * grain), std::min(count, blocks * (rank + 1) / parts * grain)};
}

struct Operands {
  const char* a;
  const char* b;
  const void* extra;
  char* out;
  char* scratch;
  const KernelContext* context;
};

}  // namespace

struct PreparedMatmul::Parts {
  BlockProduct kind = BlockProduct::kPlain;
  HopperType hopper = HopperType::kBf16;
  MatmulForm form;
  DType bias = DType::kF32;
  std::optional<Epilogue> epilogue;
  BlockedMatrix blocked;  // how b is read: blocked by the caller, or into scratch
  int threads = 1;
  bool whole_products = false;  // each thread takes products of the batch for itself
  bool by_columns = false;      // threads share column blocks, not rows
  bool copies_a = false;        // a block of a is transposed, converted, cut into chunks or packed first
  bool packs_a = false;         // for tiles
  bool buffered = false;        // sums go to a buffer in f32, and out through finish_rows
  bool strided = false;         // both operands are read as they lie: no copies, no blocks
  bool panels = false;          // narrow rows of f32 go through panel_product
  bool skips_zeros = false;     // rows of a that are zero are left out
  int64_t row_block = 0, column_block = 0;
  std::vector<Range> pieces;  // of rows, in the order in which threads take them; none: each has its share
  std::string implementation = "plain";
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<onednn::Gemm>> gemms;  // by rows and columns
  // Scratch: blocked b (one, or one a thread), then for each thread a block of a, a buffer of sums, oneDNN's own.
  int64_t blocked_bytes = 0, a_bytes = 0, sums_bytes = 0, gemm_bytes = 0;

  /// Whether products read pairs of k and write sixteen columns at a time.
  bool reads_pairs() const { return kind == BlockProduct::kTiles || kind == BlockProduct::kHopper; }
  int64_t element() const { return static_cast<int64_t>(size_of(blocked.compute)); }
  /// Elements between rows of a copied block of a.
  int64_t copied_k() const { return reads_pairs() ? (blocked.k_chunk() + 1) / 2 * 2 : blocked.k_chunk(); }
  /// Floats between rows of a buffer of sums: rows of tiles begin in different sets of the first-level cache if they
  /// are an odd number of lines apart.
  int64_t sums_stride(int64_t columns) const {
    if (strided) return (columns + 15) / 16 * 16;
    return reads_pairs() ? ((columns + 15) / 16 | 1) * 16 : columns;
  }
  /// Bytes of a chunk of so many copied rows of a.
  int64_t copied_bytes(int64_t rows) const {
    if (packs_a) return (rows + kAmxRows - 1) / kAmxRows * packed_strip_bytes(blocked.k_chunk());
    return rows * copied_k() * element();
  }
  /// Bytes of a block's product of operands that are read as they lie.
  int64_t strided_work() const {
    if (!strided) return 0;
    const int64_t stride = sums_stride(column_block);
    return element() == 2 ? strided_pairs_work(row_block, column_block, stride) : row_block * stride * 4;
  }
  int64_t rank_bytes() const { return a_bytes + sums_bytes + gemm_bytes; }
  bool blocks_b() const { return !form.blocked && !strided; }
  int64_t blocked_copies() const { return !blocks_b() ? 0 : whole_products ? threads : 1; }
  int64_t epilogue_at() const { return blocked_copies() * blocked_bytes + threads * rank_bytes(); }
  int64_t scratch_bytes() const { return epilogue_at() + (epilogue ? epilogue->scratch_bytes() : 0); }

  void choose_blocks();
  void choose_pieces();
  bool make_gemms(std::string* why);
  bool make_gemm(int64_t rows, int64_t columns, std::string* why);
  void choose_strided();
  void choose_panels();
  bool choose_skipping(std::string* why);
  void size_scratch();
  Range row_share(int rank) const;
  Range column_share(int rank) const;
  void product(int64_t index, Range rows, Range columns, int rank, const char* b, const Operands& at) const;
  void block(int64_t index, Range rows, Range columns, int rank, const char* b, const char* a,
             const Operands& at) const;
  void strided_chunk(const char* a, const char* b, int64_t chunk, int64_t rows, int64_t columns, float* to,
                     float* work) const;
  void copy_rows(const char* from, int64_t rows, char* to) const;
  std::optional<std::vector<int64_t>> filled_rows(int64_t index, const char* b, const Operands& at,
                                                  ThreadTeam& team) const;
  void filled_product(int64_t index, const std::vector<int64_t>& filled, int rank, const char* b,
                      const Operands& at) const;
  void leave_out(int64_t index, Range rows, int rank, const Operands& at) const;
  void run(const Operands& at, ThreadTeam& team) const;
  void run_whole_products(const Operands& at, ThreadTeam& team) const;
};

Range PreparedMatmul::Parts::row_share(int rank) const {
  if (whole_products || by_columns) return {0, form.m};
  return part(form.m, strided && element() == 4 ? kStridedGrain : kRowGrain, rank, threads);
}

Range PreparedMatmul::Parts::column_share(int rank) const {
  if (!by_columns) return {0, form.n};
  return part(form.n, blocked.n_block, rank, threads);
}

void PreparedMatmul::Parts::choose_blocks() {
  const bool few_rows = form.m < kRowGrain * threads && blocked.blocks() >= threads;
  whole_products = threads > 1 && form.batch >= threads;
  by_columns = threads > 1 && !whole_products && few_rows;
  packs_a = kind == BlockProduct::kTiles && form.a.dtype == DType::kBF16 &&
            (form.transpose_a || form.n >= kPackedColumns) &&
            (form.chunk_blocks == 1 || form.run() % (2 * kAmxUnits) == 0);
  copies_a = packs_a || form.transpose_a || form.a.dtype != blocked.compute || form.chunks > 1 || copied_k() != form.k;
  buffered = kind != BlockProduct::kOnednn || form.chunks > 1 || by_columns || form.output.dtype == DType::kF16 ||
             (form.has_bias && bias == DType::kF16) ||
             (blocked.compute == DType::kF32 && (form.output.dtype != DType::kF32 || bias != DType::kF32));
  // A panel of b, in the second-level cache, serves all copied rows of a. Few sums stay there, if there are several
  // chunks of them.
  row_block = form.m;
  if (copies_a)
    row_block = std::clamp<int64_t>(round_down(kBlockBytes / std::max<int64_t>(1, form.k * element()), kCopiedGrain),
                                    kCopiedGrain, kCopiedMost);
  if (buffered) row_block = std::min<int64_t>(row_block, 128);
  if (epilogue && !by_columns) {
    const int64_t row_bytes = form.n * static_cast<int64_t>(size_of(form.output.dtype));
    row_block = std::min(row_block, round_down(kResultBytes / std::max<int64_t>(1, row_bytes), 2 * kRowGrain));
  }
  // Tiles go through k in passes: what a pass reads of a fits, and each block of b serves as many rows as it can.
  if (kind == BlockProduct::kTiles) {
    const int64_t strips = (row_share(0).size() + kAmxRows - 1) / kAmxRows,
                  blocks = (strips + kTileStrips - 1) / kTileStrips;
    row_block = blocks ? (strips + blocks - 1) / blocks * kAmxRows : 1;
  }
  row_block = std::max<int64_t>(1, std::min(row_block, form.m));
  const int64_t columns = kind == BlockProduct::kTiles ? kTileColumns : kBufferedColumns;
  column_block = buffered ? std::min(form.n, round_down(columns / form.chunks, blocked.n_block)) : form.n;
}

/// Threads of one speed end at the same time: pieces of a size are as many as threads, and each size takes half of what
/// is left. A thread that something disturbs takes fewer of the last ones.
void PreparedMatmul::Parts::choose_pieces() {
  if (kind != BlockProduct::kOnednn || threads == 1 || whole_products || by_columns || form.m < threads * kSharedLeast)
    return;
  const int64_t grain = copies_a ? kCopiedGrain : kRowGrain;
  for (int64_t row = 0; row < form.m;) {
    const int64_t half = round_down((form.m - row) / (2 * threads), grain);
    const int64_t rows = std::min(row_block, std::max(half, kPieceLeast));
    for (int thread = 0; thread < threads && row < form.m; ++thread, row += rows)
      pieces.push_back({row, std::min(form.m, row + rows)});
  }
}

bool PreparedMatmul::Parts::make_gemm(int64_t rows, int64_t columns, std::string* why) {
  auto& gemm = gemms[{rows, columns}];
  if (gemm) return true;
  onednn::GemmShape shape{.m = rows,
                          .n = columns,
                          .k = blocked.k_chunk(),
                          .compute = blocked.compute,
                          .out = buffered ? DType::kF32 : form.output.dtype,
                          .bias = std::nullopt,
                          .accumulate = !buffered && form.accumulate,
                          .n_block = blocked.n_block};
  if (!buffered && form.has_bias) shape.bias = bias;
  gemm = onednn::Gemm::make(shape, threads, why);
  if (!gemm) return false;
  implementation = gemm->implementation();
  const std::string refused = guard_refuses(blocked.compute, implementation);
  if (!refused.empty() && why) *why = refused;
  gemm_bytes = std::max(gemm_bytes, aligned(gemm->scratch_bytes()));
  return refused.empty();
}

bool PreparedMatmul::Parts::make_gemms(std::string* why) {
  if (kind == BlockProduct::kTiles) implementation = "tiles";
  if (kind == BlockProduct::kHopper) implementation = "hopper";
  if (kind != BlockProduct::kOnednn) return true;
  const auto make_all = [&](Range rows, Range columns) {
    for (int64_t i = rows.begin; i < rows.end; i += row_block)
      for (int64_t j = columns.begin; j < columns.end; j += column_block)
        if (!make_gemm(std::min(row_block, rows.end - i), std::min(column_block, columns.end - j), why)) return false;
    return true;
  };
  if (!pieces.empty()) return std::ranges::all_of(pieces, [&](Range rows) { return make_all(rows, {0, form.n}); });
  for (int rank = 0; rank < threads; ++rank)
    if (!make_all(row_share(rank), column_share(rank))) return false;
  return true;
}

/// A narrow product with a transposed a, as weights' gradients are, needs none of the copies that oneDNN's product
/// reads, where oneDNN's sums have the order of ours.
void PreparedMatmul::Parts::choose_strided() {
  strided = kind == BlockProduct::kOnednn && form.a.dtype == blocked.compute && form.b.dtype == blocked.compute &&
            form.transpose_a && !form.transpose_b && !form.blocked && form.chunk_blocks == 1 &&
            form.m <= kStridedMost && form.n <= kStridedMost && guard_knows_chains(blocked.compute, implementation);
  if (!strided) return;
  implementation = "strided";
  gemms.clear();
  gemm_bytes = 0;
  copies_a = false;
  buffered = true;
  row_block = std::max<int64_t>(1, form.m);
  column_block = form.n;
}

/// A narrow product of f32 needs no call of oneDNN's for each block of rows, where one chain makes each of its sums.
void PreparedMatmul::Parts::choose_panels() {
  panels = kind == BlockProduct::kOnednn && blocked.compute == DType::kF32 && !strided && !copies_a && !buffered &&
           !form.accumulate && form.n <= kStridedMost && form.k <= kStridedMost && strided_chain(form.k) == form.k &&
           guard_knows_chains(blocked.compute, implementation);
  if (!panels) return;
  implementation = "panels";
  gemms.clear();
  gemm_bytes = 0;
}

/// Rows of f32 that are read where they lie may be cut anywhere, so those of zeros between them need no product.
bool PreparedMatmul::Parts::choose_skipping(std::string* why) {
  skips_zeros = kind == BlockProduct::kOnednn && blocked.compute == DType::kF32 && !strided && !copies_a && !buffered &&
                !by_columns && !whole_products && form.m >= kSkippedRows;
  if (!skips_zeros || panels) return true;
  for (const int64_t rows : kFilledPieces)
    if (rows <= row_block && !make_gemm(rows, form.n, why)) return false;
  return form.m % kZeroGroup == 0 || make_gemm(form.m % kZeroGroup, form.n, why);
}

void PreparedMatmul::Parts::size_scratch() {
  if (blocks_b()) blocked_bytes = aligned(blocked.bytes());
  if (copies_a) a_bytes = aligned(form.chunks * copied_bytes(row_block));
  if (buffered) sums_bytes = aligned(form.chunks * row_block * sums_stride(column_block) * 4 + strided_work());
}

/// A chunk's sums of rows x columns, of operands as they lie: `a` and `b` begin with the first row and column.
void PreparedMatmul::Parts::strided_chunk(const char* a, const char* b, int64_t chunk, int64_t rows, int64_t columns,
                                          float* to, float* work) const {
  const int64_t k = blocked.k_chunk(), stride = sums_stride(columns);
  a += chunk * k * form.m * element();
  b += chunk * k * form.n * element();
  if (blocked.compute == DType::kBF16)
    return strided_pairs({.m = rows,
                          .n = columns,
                          .k = k,
                          .a = reinterpret_cast<const uint16_t*>(a),
                          .a_stride = form.m,
                          .b = reinterpret_cast<const uint16_t*>(b),
                          .b_stride = form.n,
                          .c = to,
                          .c_stride = stride,
                          .work = work});
  strided_product({.m = rows,
                   .n = columns,
                   .k = k,
                   .a = reinterpret_cast<const float*>(a),
                   .a_row = 1,
                   .a_k = form.m,
                   .b = reinterpret_cast<const float*>(b),
                   .b_stride = form.n,
                   .c = to,
                   .c_stride = stride,
                   .work = work});
}

/// Rows x columns of product `index`; b is the blocked matrix, a the block of rows in chunks one after the other.
void PreparedMatmul::Parts::block(int64_t index, Range rows, Range columns, int rank, const char* b, const char* a,
                                  const Operands& at) const {
  char* own = at.scratch + blocked_copies() * blocked_bytes + rank * rank_bytes();
  auto* sums = reinterpret_cast<float*>(own + a_bytes);
  const int64_t out_size = static_cast<int64_t>(size_of(form.output.dtype));
  char* out = at.out + ((index * form.m + rows.begin) * form.n + columns.begin) * out_size;
  const onednn::Gemm* gemm =
      kind == BlockProduct::kOnednn && !strided && !panels ? gemms.at({rows.size(), columns.size()}).get() : nullptr;
  const char* b_block =
      strided ? b + columns.begin * element() : b + columns.begin / blocked.n_block * blocked.block_bytes();
  if (!buffered) {
    const auto* bias_row = static_cast<const char*>(at.extra);
    if (panels)
      return panel_product({.m = rows.size(),
                            .n = form.n,
                            .k = form.k,
                            .a = reinterpret_cast<const float*>(a),
                            .a_stride = form.k,
                            .b = reinterpret_cast<const float*>(b_block),
                            .panel_columns = blocked.n_block,
                            .panel_stride = blocked.block_bytes() / 4,
                            .bias = form.has_bias ? static_cast<const float*>(at.extra) : nullptr,
                            .out = reinterpret_cast<float*>(out),
                            .out_stride = form.n});
    if (form.accumulate && at.extra != at.out)  // oneDNN adds to the old contents
      std::memcpy(out, bias_row + (out - at.out), static_cast<size_t>(rows.size() * form.n * out_size));
    return gemm->run(rank, a, b_block, form.has_bias ? bias_row : nullptr, out, own + a_bytes + sums_bytes);
  }
  const int64_t stride = sums_stride(columns.size()), chunk_sums = rows.size() * stride, k = copied_k();
  for (int64_t chunk = 0; chunk < form.chunks; ++chunk) {
    float* to = sums + chunk * chunk_sums;
    if (strided) {
      strided_chunk(a, b_block, chunk, rows.size(), columns.size(), to, sums + form.chunks * chunk_sums);
      continue;
    }
    const char* a_chunk = a + chunk * copied_bytes(rows.size());
    const char* b_chunk = b_block + chunk * blocked.chunk_bytes();
    if (gemm)
      gemm->run(rank, a_chunk, b_chunk, nullptr, to, own + a_bytes + sums_bytes);
    else if (kind == BlockProduct::kTiles)
      amx_product({.m = rows.size(),
                   .n = (columns.size() + 15) / 16 * 16,
                   .k = k / 2,
                   .a = a_chunk,
                   .a_stride = 2 * k,
                   .a_strip = packs_a ? packed_strip_bytes(k) : 0,
                   .b = reinterpret_cast<const uint32_t*>(b_chunk),
                   .b_stride = blocked.n_block,
                   .panel_stride = blocked.block_bytes() / 4,
                   .panel_columns = blocked.n_block,
                   .c = to,
                   .c_stride = stride,
                   .add = false,
                   .result = out,
                   .result_stride = form.n * out_size,
                   .result_size = out_size});
    else if (kind == BlockProduct::kHopper)
      hopper_product(hopper, {.m = rows.size(),
                              .n = (columns.size() + 15) / 16 * 16,
                              .k = k / 2,
                              .a = reinterpret_cast<const uint32_t*>(a_chunk),
                              .a_stride = k / 2,
                              .b = reinterpret_cast<const uint32_t*>(b_chunk),
                              .panel_stride = blocked.block_bytes() / 4,
                              .c = to,
                              .c_stride = stride,
                              .add = false});
    else
      plain_product(rows.size(), columns.size(), k, reinterpret_cast<const float*>(a_chunk),
                    reinterpret_cast<const float*>(b_chunk), to, columns.size());
  }
  const auto* c = form.accumulate ? static_cast<const float*>(at.extra) : nullptr;
  const char* bias_at = form.has_bias
                            ? static_cast<const char*>(at.extra) + columns.begin * static_cast<int64_t>(size_of(bias))
                            : nullptr;
  finish_rows({.sums = sums,
               .sum_stride = stride,
               .rows = rows.size(),
               .n = columns.size(),
               .chunks = form.chunks,
               .chunk_stride = chunk_sums,
               .bias = bias_at,
               .bias_type = bias,
               .c = c ? c + (index * form.m + rows.begin) * form.n + columns.begin : nullptr,
               .c_stride = form.n,
               .out_type = form.output.dtype,
               .out = out,
               .out_stride = form.n * out_size});
}

/// Copies so many rows of a, the first at `from`, chunk by chunk.
void PreparedMatmul::Parts::copy_rows(const char* from, int64_t rows, char* to) const {
  const int64_t size = static_cast<int64_t>(size_of(form.a.dtype));
  const int64_t k = copied_k(), stride = form.transpose_a ? form.m : form.k, run = form.run();
  if (!packs_a && k != blocked.k_chunk()) std::memset(to, 0, static_cast<size_t>(form.chunks * copied_bytes(rows)));
  for (int64_t chunk = 0; chunk < form.chunks; ++chunk)
    for (int64_t part = 0; part < form.chunk_blocks; ++part) {
      const int64_t first = (part * form.chunks + chunk) * run * (form.transpose_a ? stride : 1);
      char* chunk_to = to + chunk * copied_bytes(rows);
      if (packs_a)
        pack_rows(reinterpret_cast<const uint16_t*>(from) + first, stride, form.transpose_a, rows, run,
                  packed_strip_bytes(blocked.k_chunk()), chunk_to + packed_strip_bytes(part * run));
      else
        copy_block(from + first * size, form.a.dtype, stride, form.transpose_a, rows, run, blocked.compute, k,
                   chunk_to + part * run * element());
    }
}

void PreparedMatmul::Parts::product(int64_t index, Range rows, Range columns, int rank, const char* b,
                                    const Operands& at) const {
  const int64_t size = static_cast<int64_t>(size_of(form.a.dtype));
  const char* a = at.a + form.a_index[static_cast<size_t>(index)] * form.m * form.k * size;
  char* copy = at.scratch + blocked_copies() * blocked_bytes + rank * rank_bytes();
  if (columns.size() == 0) return;
  for (int64_t i = rows.begin; i < rows.end; i += row_block) {
    const Range some{i, std::min(rows.end, i + row_block)};
    const char* block_a = a + (strided ? i : i * form.k) * size;
    if (copies_a) {
      copy_rows(a + (form.transpose_a ? i : i * form.k) * size, some.size(), copy);
      block_a = copy;
    }
    for (int64_t j = columns.begin; j < columns.end; j += column_block)
      block(index, some, {j, std::min(columns.end, j + column_block)}, rank, b, block_a, at);
    if (epilogue && !by_columns)
      epilogue->apply(*at.context, at.scratch + epilogue_at(), rank, (index * form.m + some.begin) * form.n,
                      (index * form.m + some.end) * form.n);
  }
}

/// Which groups of kZeroGroup rows of a product are more than zeros, in order, where so many are zeros that it is worth
/// leaving them out; nothing where all rows are to be multiplied. Threads share the look at both operands.
std::optional<std::vector<int64_t>> PreparedMatmul::Parts::filled_rows(int64_t index, const char* b, const Operands& at,
                                                                       ThreadTeam& team) const {
  if (!skips_zeros) return std::nullopt;
  const auto* a = reinterpret_cast<const float*>(at.a) + form.a_index[static_cast<size_t>(index)] * form.m * form.k;
  const int64_t groups = (form.m + kZeroGroup - 1) / kZeroGroup;
  std::vector<char> is_filled(static_cast<size_t>(groups));
  std::atomic<bool> finite{true};
  team.run([&](int rank) {
    const Range own = part(groups, 1, rank, team.size());
    for (int64_t group = own.begin; group < own.end; ++group) {
      const int64_t first = group * kZeroGroup, rows = std::min(kZeroGroup, form.m - first);
      is_filled[static_cast<size_t>(group)] = !are_zero(a + first * form.k, rows, form.k, form.k);
    }
    const Range some = part(blocked.bytes() / 4, kAlign, rank, team.size());
    if (!are_finite(reinterpret_cast<const float*>(b) + some.begin, 1, some.size(), 0)) finite = false;
  });
  std::vector<int64_t> filled;
  for (int64_t group = 0; group < groups; ++group)
    if (is_filled[static_cast<size_t>(group)]) filled.push_back(group);
  if (!finite || std::ssize(filled) * kZeroGroup * 16 > form.m * 15) return std::nullopt;
  return filled;
}

/// A thread's share of a product of these groups of rows, and of what the others are without one.
void PreparedMatmul::Parts::filled_product(int64_t index, const std::vector<int64_t>& filled, int rank, const char* b,
                                           const Operands& at) const {
  const Range own = part(std::ssize(filled), 1, rank, threads);
  for (int64_t i = own.begin, next; i < own.end; i = next) {
    const int64_t first = filled[static_cast<size_t>(i)];
    for (next = i + 1; next < own.end && filled[static_cast<size_t>(next)] == first + next - i;) ++next;
    const int64_t end = std::min(form.m, (first + next - i) * kZeroGroup);
    for (int64_t row = first * kZeroGroup, rows; row < end; row += rows) {
      const int64_t most = std::min(row_block, end - row);
      const auto* const piece = std::ranges::find_if(kFilledPieces, [&](int64_t each) { return each <= most; });
      rows = panels ? most : piece != std::end(kFilledPieces) ? *piece : end - row;
      product(index, {row, row + rows}, {0, form.n}, rank, b, at);
    }
  }
  const Range all = part((form.m + kZeroGroup - 1) / kZeroGroup, 1, rank, threads);
  auto at_filled = std::ranges::lower_bound(filled, all.begin);
  for (int64_t group = all.begin; group < all.end; ++group) {
    if (at_filled != filled.end() && *at_filled == group)
      ++at_filled;
    else
      leave_out(index, {group * kZeroGroup, std::min(form.m, (group + 1) * kZeroGroup)}, rank, at);
  }
}

/// Results of rows whose sums are zero.
void PreparedMatmul::Parts::leave_out(int64_t index, Range rows, int rank, const Operands& at) const {
  const int64_t n = form.n, first = (index * form.m + rows.begin) * n;
  float* const out = reinterpret_cast<float*>(at.out) + first;
  const auto* extra = static_cast<const float*>(at.extra);
  if (form.has_bias) {
    for (int64_t row = 0; row < rows.size(); ++row)
      std::transform(extra, extra + n, out + row * n, [](float bias) { return 0.0f + bias; });
  } else if (form.accumulate) {
    std::transform(extra + first, extra + first + rows.size() * n, out, [](float c) { return 0.0f + c; });
  } else {
    std::fill_n(out, rows.size() * n, 0.0f);
  }
  if (epilogue)
    epilogue->apply(*at.context, at.scratch + epilogue_at(), rank, (index * form.m + rows.begin) * form.n,
                    (index * form.m + rows.end) * form.n);
}

void PreparedMatmul::Parts::run_whole_products(const Operands& at, ThreadTeam& team) const {
  const int64_t b_bytes = form.k * form.n * static_cast<int64_t>(size_of(form.b.dtype));
  team.run([&](int rank) {
    const Range products = part(form.batch, 1, rank, threads);
    int64_t held = -1;
    for (int64_t index = products.begin; index < products.end; ++index) {
      const char* b = at.b;
      if (strided) {
        b += form.b_index[static_cast<size_t>(index)] * b_bytes;
      } else if (!form.blocked) {
        char* to = at.scratch + rank * blocked_bytes;
        const int64_t wanted = form.b_index[static_cast<size_t>(index)];
        if (wanted != held)
          fill_blocks(blocked, at.b + wanted * b_bytes, form.b.dtype, form.b.dtype, {0, blocked.blocks()}, to);
        held = wanted;
        b = to;
      }
      product(index, {0, form.m}, {0, form.n}, rank, b, at);
    }
  });
}

void PreparedMatmul::Parts::run(const Operands& at, ThreadTeam& team) const {
  const int64_t b_bytes = form.k * form.n * static_cast<int64_t>(size_of(form.b.dtype));
  int64_t held = -1;
  for (int64_t index = 0; index < form.batch; ++index) {
    const char* b = at.b;
    if (strided) {
      b += form.b_index[static_cast<size_t>(index)] * b_bytes;
    } else if (!form.blocked) {
      const int64_t wanted = form.b_index[static_cast<size_t>(index)];
      if (wanted != held) {
        // Few columns are one block: then threads share its rows.
        const int64_t parts = blocked.blocks() < team.size() && blocked.k_chunk() >= kSharedRows ? team.size() : 1;
        team.split(blocked.blocks() * parts, 1, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i)
            fill_blocks(blocked, at.b + wanted * b_bytes, form.b.dtype, form.b.dtype,
                        {i / parts, i / parts + 1, i % parts, parts}, at.scratch);
        });
      }
      held = wanted;
      b = at.scratch;
    }
    const auto filled = filled_rows(index, b, at, team);
    std::atomic<size_t> next{0};
    team.run([&](int rank) {
      if (rank >= threads) return;
      if (filled) return filled_product(index, *filled, rank, b, at);
      if (pieces.empty()) return product(index, row_share(rank), column_share(rank), rank, b, at);
      for (size_t i = next++; i < pieces.size(); i = next++) product(index, pieces[i], {0, form.n}, rank, b, at);
    });
  }
}

PreparedMatmul::PreparedMatmul(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
PreparedMatmul::~PreparedMatmul() = default;
int64_t PreparedMatmul::scratch_bytes() const { return parts_->scratch_bytes(); }
const std::string& PreparedMatmul::implementation() const { return parts_->implementation; }

std::optional<BlockedMatrix> PreparedMatmul::preferred_blocking(BlockProduct kind, const MatmulForm& form) {
  BlockedMatrix blocked{.compute = DType::kF32,
                        .k = form.k,
                        .n = form.n,
                        .n_block = 0,
                        .chunks = form.chunks,
                        .chunk_blocks = form.chunk_blocks,
                        .transposed = form.transpose_b};
  if (kind == BlockProduct::kPlain) {
    blocked.n_block = plain_block();
    return blocked;
  }
  // 8-bit floats are bf16 without loss.
  const bool bf16 = form.b.dtype == DType::kBF16 || size_of(form.b.dtype) == 1;
  if (kind == BlockProduct::kHopper) {
    if (!bf16 && form.b.dtype != DType::kF16) return std::nullopt;
    blocked.compute = DType::kBF16;  // of f16 as well: pairs of 16 bits
    blocked.n_block = kPanel;
    return blocked;
  }
  if (cpu_level() < CpuLevel::kAvx512 || form.k == 0 || form.n == 0) return std::nullopt;
  if (kind == BlockProduct::kTiles) {
    if (!bf16 || cpu_level() < CpuLevel::kAmxBf16) return std::nullopt;
    blocked.compute = DType::kBF16;
    blocked.n_block = kAmxPanel;
    return blocked;
  }
  if (bf16) {
    blocked.compute = DType::kBF16;
    blocked.n_block = onednn::preferred_block(DType::kBF16, blocked.k_chunk(), form.n);
    if (blocked.n_block) return blocked;
    blocked.compute = DType::kF32;  // widened, which changes no value
  }
  blocked.n_block = onednn::preferred_block(DType::kF32, blocked.k_chunk(), form.n);
  if (blocked.n_block) return blocked;
  return std::nullopt;
}

std::unique_ptr<PreparedMatmul> PreparedMatmul::make(BlockProduct kind, const MatmulForm& form, DType bias,
                                                     const std::optional<BlockedMatrix>& blocked, int threads,
                                                     std::string* why, std::optional<Epilogue> epilogue) {
  const auto refuse = [&](const std::string& reason) {
    if (why) *why = reason;
    return nullptr;
  };
  if (size_of(form.output.dtype) < 2) return refuse("results in 8-bit floats are not for this kernel");
  if (kind == BlockProduct::kOnednn && !onednn::built()) return refuse("this build of Ramet has no oneDNN");
  // oneDNN cuts a long k where it likes, and tiles sum groups of k.
  if (form.in_order && kind != BlockProduct::kPlain) return refuse("sums in order are the plain kernel's");
  const auto preferred = preferred_blocking(kind, form);
  const bool halves = form.a.dtype == DType::kF16;
  if (kind == BlockProduct::kHopper && (!preferred || !is_floating(form.a.dtype) || size_of(form.a.dtype) > 2 ||
                                        halves != (form.b.dtype == DType::kF16)))
    return refuse("tensor cores multiply two operands of f16, or two of bf16 and 8-bit floats");
  if (!preferred && kind == BlockProduct::kTiles) return refuse("no tiles of this type on " + cpu_kernel_class());
  if (!preferred) return refuse("oneDNN has no blocked product of these types on " + cpu_kernel_class());
  if (form.blocked && (!blocked || blocked->format() != preferred->format()))
    return refuse("b is blocked for another kernel; found " + (blocked ? blocked->format() : "no known format") +
                  "; expected " + preferred->format());
  auto parts = std::make_unique<Parts>();
  parts->kind = kind;
  parts->form = form;
  parts->bias = form.has_bias ? bias : DType::kF32;
  parts->blocked = *preferred;
  parts->threads = threads;
  if (epilogue && !epilogue->empty()) parts->epilogue = std::move(epilogue);
  if (kind == BlockProduct::kHopper && halves) {
    parts->hopper = HopperType::kF16;
    parts->form.a.dtype = parts->form.b.dtype = DType::kBF16;  // so that they are copied as they are
  }
  parts->choose_blocks();
  parts->choose_pieces();
  if (!parts->make_gemms(why)) return nullptr;
  parts->choose_strided();
  parts->choose_panels();
  if (!parts->choose_skipping(why)) return nullptr;
  parts->size_scratch();
  return std::unique_ptr<PreparedMatmul>(new PreparedMatmul(std::move(parts)));
}

void PreparedMatmul::run(const void* a, const void* b, const void* extra, void* out, void* scratch, ThreadTeam& team,
                         const KernelContext* context) const {
  if (team.size() != parts_->threads)
    internal_error("PreparedMatmul::run", "prepared for " + std::to_string(parts_->threads) +
                                              " threads got a team of " + std::to_string(team.size()));
  const Operands at{static_cast<const char*>(a), static_cast<const char*>(b), extra,
                    static_cast<char*>(out),     static_cast<char*>(scratch), context};
  if (parts_->whole_products)
    parts_->run_whole_products(at, team);
  else
    parts_->run(at, team);
  if (parts_->epilogue && parts_->by_columns)
    parts_->epilogue->apply_to_all(*context, at.scratch + parts_->epilogue_at());
}

namespace {

class ProductKernel : public Kernel {
 public:
  ProductKernel(std::unique_ptr<PreparedMatmul> product, bool has_extra)
      : product_(std::move(product)), has_extra_(has_extra) {}
  void run(const KernelContext& context) const override {
    product_->run(context.inputs[0], context.inputs[1], has_extra_ ? context.inputs[2] : nullptr, context.outputs[0],
                  context.scratch, context.team, &context);
  }

 private:
  std::unique_ptr<PreparedMatmul> product_;
  bool has_extra_;
};

}  // namespace

std::unique_ptr<Kernel> product_kernel(std::unique_ptr<PreparedMatmul> product, bool has_extra) {
  return std::make_unique<ProductKernel>(std::move(product), has_extra);
}

}  // namespace ramet::kernel
