#include <algorithm>
#include <limits>

#include "ramet/kernel/cuda/device/product_arguments.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"
#include "ramet/kernel/cuda/product_wgmma.h"
#include "ramet/ops/matmul.h"

// Products of bf16 and f16 by tensor cores (product_wgmma.cu, and what it does not take by product_mma.cu), and of f32,
// or in order, by chains of fused multiply-adds (product_f32.cu). The card computes the class of kernel/hopper;
// ops/matmul.h says what a product is.

namespace ramet::kernel::cuda {
namespace {

using ramet_device::kStackAxes;
using ramet_device::ProductArguments;
using ramet_device::ProductOperand;
using ramet_device::ProductPartsArguments;
using ramet_device::ProductResult;

constexpr int64_t kTile = 128;  // of both kernels

bool is_wide(DType type) { return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16; }
bool as_bf16(DType type) { return type == DType::kBF16 || size_of(type) == 1; }

/// Whether an element is a chain of multiply-adds of f32, and not of steps of a tensor core.
bool is_chain(const MatmulForm& form) { return form.in_order || form.a.dtype == DType::kF32; }

int64_t stack_rank(const MatmulForm& form) { return form.batch == 1 ? 0 : form.output.shape.rank() - 2; }

int64_t tiles(const MatmulForm& form) {
  return (form.m + kTile - 1) / kTile * ((form.n + kTile - 1) / kTile) * form.batch * form.chunks;
}

std::string refuse_product(const NodeSignature& node) {
  const MatmulForm form = matmul_form(node);
  if (form.blocked) return "weights are read as they lie in memory";
  if (!is_wide(form.output.dtype)) return "results in 8-bit floats are not for this kernel";
  if (form.has_bias && !is_wide(node.inputs[2].dtype)) return "a bias in 8-bit floats is not for this kernel";
  const DType a = form.a.dtype, b = form.b.dtype;
  const bool halves = a == DType::kF16 && b == DType::kF16;
  if (is_chain(form) ? !is_wide(a) || !is_wide(b) : !halves && !(as_bf16(a) && as_bf16(b)))
    return "the card multiplies operands of f32, of f16, or of bf16 and 8-bit floats";
  constexpr int64_t kMost = std::numeric_limits<int>::max() - kTile;
  if (std::max({form.m, form.n, form.k, tiles(form)}) > kMost) return "too large for this kernel";
  if (stack_rank(form) > kStackAxes) return "a stack of more than " + std::to_string(kStackAxes) + " dimensions";
  return "";
}

/// An operand as the tiles read it. Tensor cores take 16-bit numbers in rows that begin at multiples of 16 bytes; what
/// lies otherwise is copied to scratch first.
struct OperandLayout {
  DType stored, read;
  bool along_k = false;
  int64_t matrices = 1, rows = 0, columns = 0, stride = 0;
  bool copied() const { return stored != read || stride != columns; }
  int64_t copy_bytes() const { return copied() ? (matrices * rows * stride * 2 + 255) / 256 * 256 : 0; }
};

OperandLayout layout_of(const MatmulForm& form, bool is_a) {
  const TensorType& type = is_a ? form.a : form.b;
  const int64_t others = is_a ? form.m : form.n;
  OperandLayout layout{.stored = type.dtype, .read = type.dtype};
  layout.along_k = is_a ? !form.transpose_a : form.transpose_b;
  layout.rows = layout.along_k ? others : form.k;
  layout.columns = layout.stride = layout.along_k ? form.k : others;
  if (type.elements() > 0) layout.matrices = type.elements() / (form.k * others);
  if (is_chain(form)) return layout;
  if (size_of(type.dtype) == 1) layout.read = DType::kBF16;
  layout.stride = (layout.columns + 7) / 8 * 8;
  return layout;
}

int64_t parts_bytes(const MatmulForm& form) {
  return form.chunks > 1 ? (form.chunks * form.output.elements() * 4 + 255) / 256 * 256 : 0;
}

/// The parts along k, in f32, then copies of operands.
int64_t product_scratch(const NodeSignature& node) {
  const MatmulForm form = matmul_form(node);
  return parts_bytes(form) + layout_of(form, true).copy_bytes() + layout_of(form, false).copy_bytes();
}

bool is_aligned(const void* data, size_t bytes) { return reinterpret_cast<uintptr_t>(data) % bytes == 0; }

/// A node, and the functions that compute it.
class ProductKernel {
 public:
  explicit ProductKernel(const NodeSignature& node)
      : form_(matmul_form(node)), a_(layout_of(form_, true)), b_(layout_of(form_, false)) {
    if (form_.has_bias) bias_ = node.inputs[2].dtype;
    const bool chain = is_chain(form_);
    const std::string name = chain ? "product_f32" : "product_mma";
    std::vector<std::string> definitions = {"kTransposeA=" + std::to_string(form_.transpose_a),
                                            "kTransposeB=" + std::to_string(form_.transpose_b)};
    if (chain)
      definitions.insert(definitions.end(), {"TypeA=" + storage_of(a_.read), "TypeB=" + storage_of(b_.read)});
    else
      definitions.push_back("Type=" + storage_of(a_.read));
    tiles_ = {load_cuda_function(cuda_device_source(name + ".cu", definitions), name, kSharedBytes), kSharedBytes};
    if (!chain) wgmma_ = WgmmaProduct::make(form_, bias_, tiles_);
    if (a_.copied()) copy_a_ = load_copy(a_.stored);
    if (b_.copied()) copy_b_ = load_copy(b_.stored);
    if (form_.chunks > 1) parts_ = load_cuda_function(cuda_device_source("product_parts.cu"), "product_parts");
  }

  void launch(CudaStream& stream, const KernelOperands& operands) const {
    if (form_.output.elements() == 0) return;
    const ProductResult result = result_of(operands);
    char* const copies = static_cast<char*>(operands.scratch) + parts_bytes(form_);
    const void* const a = aligned_operand(stream, a_, copy_a_, operands.inputs[0], copies);
    const void* const b = aligned_operand(stream, b_, copy_b_, operands.inputs[1], copies + a_.copy_bytes());
    ProductArguments arguments = arguments_of(a, b);
    arguments.result = form_.chunks > 1 ? parts_result(operands.scratch) : result;
    if (wgmma_ && WgmmaProduct::takes(arguments))
      wgmma_->launch(stream, arguments);
    else
      tiles_.launch(stream, arguments);
    if (form_.chunks == 1) return;
    const ProductPartsArguments parts{.parts = static_cast<float*>(operands.scratch),
                                      .result = result,
                                      .count = form_.output.elements(),
                                      .part = arguments.part,
                                      .n = arguments.n,
                                      .chunks = arguments.chunks};
    stream.launch(parts_, grid_for(parts.count), parts);
  }

 private:
  /// Of four stages of both operands, as long as they are where they lie along k; afterwards of a tile of sums.
  static constexpr int64_t kSharedBytes = 4 * 2 * kTile * (32 + 8) * 2;
  static_assert(kSharedBytes >= kTile * (kTile + 4) * 4);

  static CudaFunction load_copy(DType stored) {
    return load_cuda_function(cuda_device_source("product_copy.cu", {"Type=" + storage_of(stored)}), "product_copy");
  }

  /// Where the tiles read the operand.
  static const void* aligned_operand(CudaStream& stream, const OperandLayout& layout, const CudaFunction& copy,
                                     const void* data, void* room) {
    const int64_t rows = layout.matrices * layout.rows;
    if (!layout.copied() || rows * layout.columns == 0) return data;
    stream.launch(copy, grid_for(rows * layout.stride / 8),
                  ramet_device::ProductCopyArguments{.from = data,
                                                     .to = room,
                                                     .rows = rows,
                                                     .columns = static_cast<int>(layout.columns),
                                                     .stride = static_cast<int>(layout.stride)});
    return room;
  }

  ProductOperand operand(const void* data, const OperandLayout& layout, const Shape& shape) const {
    ProductOperand made{};
    made.data = data;
    made.matrix = layout.rows * layout.stride;
    made.stride = static_cast<int>(layout.stride);
    made.whole_vectors = size_of(layout.read) == 2 && made.stride % 8 == 0 && is_aligned(data, 16) &&
                         (!layout.along_k || form_.chunks == 1 || form_.run() % 8 == 0);
    const auto rank = static_cast<int>(stack_rank(form_));
    int64_t step = 1;
    for (int axis = 1; axis <= rank && axis <= shape.rank() - 2; ++axis) {
      const int64_t extent = shape.dim(-2 - axis);
      if (extent != 1) made.steps[kStackAxes - axis] = step;
      step *= extent;
    }
    return made;
  }

  ProductArguments arguments_of(const void* a, const void* b) const {
    ProductArguments arguments{};
    arguments.a = operand(a, a_, form_.a.shape);
    arguments.b = operand(b, b_, form_.b.shape);
    const auto rank = static_cast<int>(stack_rank(form_));
    for (int axis = 1; axis <= kStackAxes; ++axis)
      arguments.stack[kStackAxes - axis] = axis <= rank ? form_.output.shape.dim(-2 - axis) : 1;
    arguments.products = form_.batch;
    arguments.part = form_.output.elements();
    arguments.m = static_cast<int>(form_.m);
    arguments.n = static_cast<int>(form_.n);
    arguments.k = static_cast<int>(form_.k / form_.chunks);
    arguments.run = static_cast<int>(form_.run());
    arguments.chunks = static_cast<int>(form_.chunks);
    return arguments;
  }

  bool stores_pairs(const void* out, DType dtype) const {
    return form_.n % 2 == 0 && is_aligned(out, 2 * size_of(dtype));
  }

  ProductResult result_of(const KernelOperands& operands) const {
    const DType dtype = form_.output.dtype;
    return {.out = operands.outputs[0],
            .extra = form_.has_bias || form_.accumulate ? operands.inputs[2] : nullptr,
            .out_type = static_cast<int>(dtype),
            .extra_type = static_cast<int>(form_.has_bias ? bias_ : DType::kF32),
            .extra_is_row = form_.has_bias,
            .aligned = stores_pairs(operands.outputs[0], dtype)};
  }

  ProductResult parts_result(void* scratch) const {
    return {.out = scratch,
            .extra = nullptr,
            .out_type = static_cast<int>(DType::kF32),
            .extra_type = 0,
            .extra_is_row = 0,
            .aligned = stores_pairs(scratch, DType::kF32)};
  }

  MatmulForm form_;
  OperandLayout a_, b_;
  DType bias_ = DType::kF32;
  MmaTiles tiles_;  // of product_mma, or of product_f32, whose tiles are as large
  CudaFunction copy_a_, copy_b_, parts_;
  std::optional<WgmmaProduct> wgmma_;
};

std::unique_ptr<CudaKernel> make_product(const NodeSignature& node) {
  return std::make_unique<StreamKernel>(
      [kernel = ProductKernel(node)](CudaStream& stream, const KernelOperands& operands) {
        kernel.launch(stream, operands);
      });
}

}  // namespace

void add_cuda_product(Backend& backend) {
  for (const std::string op : {"matmul", "linear"})
    add_card(backend, {.op = op,
                       .refuse = refuse_product,
                       .make = make_product,
                       .scratch = product_scratch,
                       .aliases = op == "matmul" ? std::vector<std::pair<int, int>>{{2, 0}}
                                                 : std::vector<std::pair<int, int>>{}});
}

}  // namespace ramet::kernel::cuda
