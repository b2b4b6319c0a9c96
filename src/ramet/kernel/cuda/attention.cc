#include <algorithm>
#include <optional>

#include "ramet/base/rng.h"
#include "ramet/kernel/cuda/device/attention_arguments.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"
#include "ramet/ops/attention.h"
#include "ramet/ops/random_bits.h"

// Attention, forward (attention_forward.cu) and backward (attention_backward.cu), with what both read made before
// (attention_prepare.cu). ops/attention.h says what an attention is, kernel/cpu/tiled_attention.h which bits it has.

namespace ramet::kernel::cuda {
namespace {

using ops::AttentionForm;
using ramet_device::AttentionArguments;
using ramet_device::AttentionBlocksArguments;
using FormFunction = AttentionForm (*)(const NodeSignature&);

constexpr int64_t kRows = 64;          // of a tile
constexpr int64_t kForwardKeys = 128;  // of a tile of the forward pass
constexpr int64_t kStep = 32;          // columns at a time in the backward pass
constexpr int64_t kWarps = 4;

int64_t tiles_of(int64_t positions) { return (positions + kRows - 1) / kRows; }
int64_t padded(int64_t head_size) { return (head_size + 15) / 16 * 16; }
bool is_empty(const AttentionForm& form) { return form.batch * form.heads * form.sequence == 0; }
bool has_key_mask(const AttentionForm& form) { return form.mask >= 0 && form.key_mask && !form.segments; }

/// draws_as of this node's heads: first + sample sample_step + head.
struct LogicalHeads {
  int64_t first = 0, sample_step = 0;
};

/// Nothing where the heads are not such a part of all.
std::optional<LogicalHeads> logical_heads(const AttentionForm& form) {
  LogicalHeads found{.first = 0, .sample_step = form.heads};
  if (form.logical_head.empty() || form.heads == 0) return found;
  found.first = form.logical_head[0];
  if (form.batch > 1) found.sample_step = form.draws_as(form.heads) - found.first;
  for (int64_t i = 0; i < form.batch * form.heads; ++i)
    if (form.draws_as(i) != found.first + i / form.heads * found.sample_step + i % form.heads) return std::nullopt;
  return found;
}

bool is_wide(DType type) { return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16; }

std::string refuse_bias_gradient(const AttentionForm& form) {
  if (form.segments) return "the gradient of a bias with segments is not for this kernel";
  if (form.bias_shape[2] != form.sequence || form.bias_shape[3] != form.keys)
    return "the gradient of a bias that queries or keys share is not for this kernel";
  if (form.bias_sums_heads() && form.chunks > 1)
    return "the gradient of a bias that chunks of heads share is not for this kernel";
  return "";
}

std::string refuse_form(const AttentionForm& form) {
  constexpr int64_t kMostSize = 128, kMostGrid = 65535, kMostPositions = int64_t{1} << 20, kMostInt = int64_t{1} << 30;
  if (!is_wide(form.dtype) || !is_wide(form.bias_dtype)) return "operands are not of f32, f16 or bf16";
  if (std::max(form.head_size, form.value_size) > kMostSize)
    return "heads of more than " + std::to_string(kMostSize) + " elements are not for this kernel";
  // Elements of a tile of 128 positions are counted in 32 bits.
  if (std::max({form.position_stride(0), form.position_stride(1), form.position_stride(2)}) >= int64_t{1} << 24)
    return "positions of so many elements are not for this kernel";
  if (std::max(form.batch, form.heads) > kMostGrid || std::max(form.sequence, form.keys) > kMostPositions)
    return "too large for this kernel";
  if (form.batch * form.sequence * form.heads > kMostInt || form.sequence * (form.keys + 127) / 32 > kMostInt)
    return "too large for this kernel";
  if (form.counter >= 0 && ops::dropout_threshold(form.dropout) > 0xffffu) return "dropout that leaves nothing";
  if (form.counter >= 0 && !logical_heads(form))
    return "the node's heads are no part of neighbours of the logical ones";
  return form.bias_gradient ? refuse_bias_gradient(form) : "";
}

/// What the kernels of a node are and how much memory they need.
class AttentionPlan {
 public:
  AttentionPlan(const AttentionForm& form, bool gradient) : form_(form), gradient_(gradient) {
    const auto take = [&](int64_t bytes) {
      const int64_t at = scratch_;
      scratch_ += (bytes + 255) / 256 * 256;
      return at;
    };
    const int64_t rows = form.batch * form.heads * form.sequence;
    if (form.segments) tiles_at_ = take(form.batch * tile_ints() * 4);
    if (form.counter >= 0) keep_at_ = take(rows * keep_words() * 4);
    if (!gradient) return;
    delta_at_ = take(rows * 4);
    if (bias_blocks() > 1) sums_at_ = take(bias_blocks() * form.bias_shape.elements() * 4);
  }

  const AttentionForm& form() const { return form_; }
  int64_t scratch() const { return scratch_; }

  /// Of a sample's table of tiles: how many there are, then four integers each. A run has at least one position.
  int64_t tile_ints() const { return 4 + 4 * form_.sequence; }
  /// Of a query's bits of dropout: rows begin at multiples of 16 bytes.
  int64_t keep_words() const { return (form_.keys + kForwardKeys - 1) / kForwardKeys * kForwardKeys / 32; }
  /// Blocks of samples whose sums make the bias's gradient; 1: it is what the kernel writes.
  int64_t bias_blocks() const { return form_.bias_gradient && form_.bias_sums_samples() ? form_.sample_blocks() : 1; }
  int64_t head_sets() const { return form_.bias_sums_heads() ? 1 : form_.heads; }

  /// Of the kernels that multiply. Those that prepare know no more than they read, so that forms share them.
  std::vector<std::string> definitions() const {
    return definitions({.size = padded(form_.head_size),
                        .value_size = padded(form_.value_size),
                        .vectors = has_vectors(),
                        .key_mask = has_key_mask(form_),
                        .dropout = form_.counter >= 0,
                        .adjusts = form_.adjusts_scores(),
                        .cached = form_.first >= 0,
                        .forward_blocks = blocks_at_once(!form_.segments),
                        .backward_blocks = blocks_at_once(!form_.causal || form_.mask < 0)});
  }
  std::vector<std::string> preparing_definitions() const { return definitions({}); }

  int64_t forward_bytes() const {
    return (kRows + kForwardKeys) * row_bytes(form_.head_size) + kForwardKeys * row_bytes(form_.value_size) +
           kForwardKeys * 4 + factor_bytes(kRows);
  }
  int64_t key_gradient_bytes() const {
    return 3 * kRows * (row_bytes(form_.head_size) + row_bytes(form_.value_size)) + 8 * kRows * 4 + factor_bytes(kStep);
  }
  int64_t query_gradient_bytes() const {
    return 3 * kRows * (row_bytes(form_.head_size) + row_bytes(form_.value_size)) + 2 * kRows * 4 + factor_bytes(kStep);
  }

  AttentionArguments arguments(const KernelOperands& operands) const {
    AttentionArguments made{};
    read_operands(operands, made);
    read_form(made);
    char* scratch = static_cast<char*>(operands.scratch);
    if (form_.segments) made.tiles = reinterpret_cast<int*>(scratch + tiles_at_);
    if (form_.counter >= 0) made.keep = reinterpret_cast<unsigned*>(scratch + keep_at_);
    if (gradient_) made.delta = reinterpret_cast<float*>(scratch + delta_at_);
    if (bias_blocks() > 1) made.dbias = reinterpret_cast<float*>(scratch + sums_at_);
    return made;
  }

 private:
  struct Definitions {
    int64_t size = 16, value_size = 16;
    bool vectors = false, key_mask = false, dropout = false, adjusts = false, cached = false;
    int forward_blocks = 1, backward_blocks = 1;
  };
  std::vector<std::string> definitions(const Definitions& given) const {
    const auto number = [](const std::string& name, int64_t value) { return name + "=" + std::to_string(value); };
    return {"kStorage=" + storage_of(form_.dtype),
            "kBiasStorage=" + storage_of(form_.bias_dtype),
            number("kTensor", is_tensor()),
            number("kVectors", given.vectors),
            number("kHeadSize", given.size),
            number("kValueSize", given.value_size),
            number("kCausal", form_.causal),
            number("kSegments", form_.segments),
            number("kKeyMask", given.key_mask),
            number("kDropout", given.dropout),
            number("kAdjusts", given.adjusts),
            number("kCached", given.cached),
            number("kForwardBlocks", given.forward_blocks),
            number("kBackwardBlocks", given.backward_blocks)};
  }

  bool is_tensor() const { return form_.dtype == DType::kBF16; }
  /// Whether rows of operands are 16 bytes aligned. Those of f16 are widened one by one.
  bool has_vectors() const {
    const auto size = static_cast<int64_t>(size_of(form_.dtype));
    return form_.dtype != DType::kF16 && form_.head_size * size % 16 == 0 && form_.value_size * size % 16 == 0;
  }
  /// Blocks that share a processor of the card: as many as have room for all they know in registers.
  int blocks_at_once(bool simple) const {
    if (!is_tensor()) return 1;
    const bool small = std::max(padded(form_.head_size), padded(form_.value_size)) <= 64;
    return small && simple && has_vectors() && !form_.adjusts_scores() ? 3 : 2;
  }
  /// Of a row in shared memory.
  int64_t row_bytes(int64_t head_size) const { return padded(head_size) * (is_tensor() ? 2 : 4) + 16; }
  /// Of left factors of products that are not the tensor core's.
  int64_t factor_bytes(int64_t columns) const { return is_tensor() ? 0 : kWarps * 16 * (columns + 4) * 4; }

  void read_operands(const KernelOperands& operands, AttentionArguments& made) const {
    const auto input = [&](int index) { return index < 0 ? nullptr : operands.inputs[static_cast<size_t>(index)]; };
    const auto size = static_cast<int64_t>(size_of(form_.dtype));
    const auto part = [&](int index, int which) {
      return static_cast<const char*>(input(form_.joint ? 0 : index)) + form_.part_offset(which) * size;
    };
    made.query = part(form_.query, 0), made.key = part(form_.key, 1), made.value = part(form_.value, 2);
    made.bias = input(form_.bias), made.mask = input(form_.mask);
    made.slopes = static_cast<const float*>(input(form_.slopes));
    made.counter = static_cast<const long long*>(input(form_.counter));
    made.first = static_cast<const int*>(input(form_.first));
    if (!gradient_) {
      made.out = operands.outputs[0];
      made.lse = operands.outputs.size() > 1 ? static_cast<float*>(operands.outputs[1]) : nullptr;
      return;
    }
    made.out = const_cast<void*>(input(form_.out));
    made.lse = static_cast<float*>(const_cast<void*>(input(form_.lse)));
    made.dout = input(form_.dout);
    const auto gradient = [&](int which) {
      return static_cast<char*>(operands.outputs[form_.joint ? 0 : static_cast<size_t>(which)]) +
             form_.part_offset(which) * size;
    };
    made.dquery = gradient(0), made.dkey = gradient(1), made.dvalue = gradient(2);
    if (form_.bias_gradient) made.dbias = static_cast<float*>(operands.outputs.back());
  }

  void read_form(AttentionArguments& made) const {
    const auto whole = [](int64_t value) { return static_cast<int>(value); };
    made.batch = whole(form_.batch), made.sequence = whole(form_.sequence), made.keys = whole(form_.keys);
    made.heads = whole(form_.heads), made.key_heads = whole(form_.key_heads);
    made.head_size = whole(form_.head_size), made.value_size = whole(form_.value_size);
    made.query_stride = whole(form_.position_stride(0)), made.key_stride = whole(form_.position_stride(1));
    made.value_stride = whole(form_.position_stride(2));
    // Windows beyond all positions are as wide as these.
    const int64_t far = form_.sequence + form_.keys;
    made.ahead = whole(form_.ahead);
    made.left = whole(std::min(form_.left, far)), made.right = whole(std::min(form_.right, far));
    made.mask_bytes = whole(static_cast<int64_t>(size_of(form_.mask_dtype)));
    made.tile_ints = whole(tile_ints()), made.keep_words = whole(keep_words());
    const auto strides = [](const ops::ScoreStrides& from, long long(&to)[4]) {
      to[0] = from.sample, to[1] = from.head, to[2] = from.query, to[3] = from.key;
    };
    strides(form_.mask_strides, made.mask_strides);
    strides(form_.bias_strides, made.bias_strides);
    made.scale = static_cast<float>(form_.scale), made.cap = static_cast<float>(form_.soft_cap);
    made.one_by_cap = made.cap > 0 ? 1 / made.cap : 0;
    made.sample_blocks = whole(form_.sample_blocks()), made.head_sets = whole(head_sets());
    if (form_.counter < 0) return;
    const RandomStream stream(static_cast<uint64_t>(form_.seed), RandomPurpose::kDropout, 0,
                              static_cast<uint64_t>(form_.tensor));
    made.draw_key[0] = stream.key()[0], made.draw_key[1] = stream.key()[1], made.draw_tensor = stream.tensor();
    made.draw_below = ops::dropout_threshold(form_.dropout), made.draw_factor = ops::dropout_scale(form_.dropout);
    const LogicalHeads heads = *logical_heads(form_);
    made.draws = form_.draws(), made.head_first = heads.first, made.head_sample = heads.sample_step;
  }

  AttentionForm form_;
  bool gradient_;
  int64_t scratch_ = 0, tiles_at_ = 0, keep_at_ = 0, delta_at_ = 0, sums_at_ = 0;
};

/// The functions of a plan.
class AttentionFunctions {
 public:
  AttentionFunctions(AttentionPlan plan, bool gradient) : plan_(std::move(plan)), gradient_(gradient) {
    const AttentionForm& form = plan_.form();
    const auto load = [&](const std::string& file, const std::string& name, int64_t bytes) {
      return device::load_cuda_function(cuda_device_source(file, plan_.definitions()), name, bytes);
    };
    const auto preparing = [&](const std::string& name) {
      return device::load_cuda_function(cuda_device_source("attention_prepare.cu", plan_.preparing_definitions()),
                                        name);
    };
    if (form.segments) tiles_ = preparing("attention_tiles");
    if (form.counter >= 0) draw_ = preparing("attention_draw");
    if (!gradient) {
      forward_ = load("attention_forward.cu", "attention_forward", plan_.forward_bytes());
      return;
    }
    delta_ = preparing("attention_delta");
    dkey_ = load("attention_backward.cu", "attention_dkey", plan_.key_gradient_bytes());
    dquery_ = load("attention_backward.cu", "attention_dquery", plan_.query_gradient_bytes());
    if (form.bias_gradient) dbias_ = load("attention_backward.cu", "attention_dbias", plan_.query_gradient_bytes());
    if (plan_.bias_blocks() > 1)
      blocks_ = device::load_cuda_function(cuda_device_source("attention_blocks.cu"), "attention_blocks");
  }

  void launch(CudaStream& stream, const KernelOperands& operands) const {
    const AttentionForm& form = plan_.form();
    if (is_empty(form)) return no_queries(stream, operands);
    const AttentionArguments arguments = plan_.arguments(operands);
    prepare(stream, arguments);
    if (!gradient_)
      return stream.launch(forward_, tiles_grid(form.sequence, form.heads, plan_.forward_bytes()), arguments);
    const int64_t rows = form.batch * form.heads * form.sequence;
    stream.launch(delta_, grid_for(rows * 16), arguments);
    if (form.keys > 0)
      stream.launch(dkey_, tiles_grid(form.keys, form.key_heads, plan_.key_gradient_bytes()), arguments);
    stream.launch(dquery_, tiles_grid(form.sequence, form.heads, plan_.query_gradient_bytes()), arguments);
    if (form.bias_gradient && form.keys > 0) bias(stream, operands, arguments);
  }

 private:
  void prepare(CudaStream& stream, const AttentionArguments& arguments) const {
    const AttentionForm& form = plan_.form();
    if (form.segments) stream.launch(tiles_, {.x = form.batch, .threads = 32}, arguments);
    if (form.counter >= 0 && form.keys > 0)
      stream.launch(draw_, {.x = (form.sequence * plan_.keep_words() + 255) / 256, .y = form.heads, .z = form.batch},
                    arguments);
  }

  /// A block a tile. How many tiles the runs of segments have is not known here: some blocks take another one.
  CudaGrid tiles_grid(int64_t positions, int64_t heads, int64_t bytes) const {
    const AttentionForm& form = plan_.form();
    const int64_t tiles = tiles_of(positions), more = form.segments ? std::min<int64_t>(4, positions - tiles) : 0;
    return {.x = tiles + more,
            .y = heads,
            .z = form.batch,
            .threads = static_cast<int>(kWarps * 32),
            .dynamic_shared_bytes = bytes};
  }

  void bias(CudaStream& stream, const KernelOperands& operands, const AttentionArguments& arguments) const {
    const AttentionForm& form = plan_.form();
    stream.launch(dbias_,
                  {.x = tiles_of(form.sequence) * ((form.keys + kStep - 1) / kStep),
                   .y = plan_.head_sets(),
                   .z = form.sample_blocks(),
                   .threads = static_cast<int>(kWarps * 32),
                   .dynamic_shared_bytes = plan_.query_gradient_bytes()},
                  arguments);
    if (plan_.bias_blocks() == 1) return;
    const AttentionBlocksArguments blocks{.sums = arguments.dbias,
                                          .dbias = static_cast<float*>(operands.outputs.back()),
                                          .elements = form.bias_shape.elements(),
                                          .blocks = static_cast<int>(plan_.bias_blocks())};
    stream.launch(blocks_, grid_for(blocks.elements), blocks);
  }

  /// Keys that no query sees.
  void no_queries(CudaStream& stream, const KernelOperands& operands) const {
    const AttentionForm& form = plan_.form();
    if (!gradient_) return;
    const auto zero = [&](void* to, int64_t elements, size_t size) {
      if (elements > 0) stream.fill(to, 0, elements * static_cast<int64_t>(size));
    };
    const int64_t positions = form.batch * form.keys;
    if (!form.joint) {
      zero(operands.outputs[1], positions * form.position_stride(1), size_of(form.dtype));
      zero(operands.outputs[2], positions * form.position_stride(2), size_of(form.dtype));
    }
    if (form.bias_gradient) zero(operands.outputs.back(), form.bias_shape.elements(), sizeof(float));
  }

  AttentionPlan plan_;
  bool gradient_;
  CudaFunction tiles_, draw_, forward_, delta_, dkey_, dquery_, dbias_, blocks_;
};

CardKernel attention_kernel(const std::string& op, bool gradient, FormFunction form) {
  return {
      .op = op,
      .refuse = [form](const NodeSignature& node) { return refuse_form(form(node)); },
      .make = [form, gradient](const NodeSignature& node) -> std::unique_ptr<CudaKernel> {
        return std::make_unique<StreamKernel>(
            [functions = AttentionFunctions(AttentionPlan(form(node), gradient), gradient)](
                CudaStream& stream, const KernelOperands& operands) { functions.launch(stream, operands); });
      },
      .scratch = [form, gradient](const NodeSignature& node) { return AttentionPlan(form(node), gradient).scratch(); }};
}

}  // namespace

void add_cuda_attention(Backend& backend) {
  add_card(backend, attention_kernel("attention", false, ops::attention_form));
  add_card(backend, attention_kernel("attention_grad", true, ops::attention_form));
  add_card(backend, attention_kernel("cached_attention", false, ops::cached_attention_form));
}

}  // namespace ramet::kernel::cuda
