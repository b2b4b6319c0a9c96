#include "ramet/kernel/cpu/convolution_product.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/kept_answers.h"
#include "ramet/kernel/cpu/prepared_matmul.h"
#include "ramet/ops/convolution.h"
#include "ramet/ops/epilogue.h"

namespace ramet::kernel {
namespace {

using Kind = ConvolutionForm::Kind;

// Sums in f32 of so many terms are one chain in oneDNN's products too. Longer ones are cut, and their bits differ.
constexpr int64_t kShortSums = 512;

bool is_product(const ConvolutionForm& form) {
  const bool pointwise = std::all_of(form.space.begin(), form.space.end(), [](const ConvolutionSpace& space) {
    return space.taps == 1 && space.stride == 1 && space.low == 0 && space.high == 0;
  });
  return pointwise && form.groups == 1 && (form.channels_last || form.input_positions() == 1);
}

/// The product of all positions.
MatmulForm matmul_form_of(const ConvolutionForm& form, const NodeSignature& node) {
  const int64_t rows = form.samples * form.input_positions();
  const DType dtype = node.inputs[0].dtype;
  const TensorType input{dtype, {rows, form.channels}}, output{dtype, {rows, form.filters}};
  const TensorType filter{dtype, {form.filters, form.channels}};
  MatmulForm product;
  product.a_index = product.b_index = {0};
  product.chunks = form.chunks;
  product.has_bias = form.has_bias;
  product.blocked = node.attributes.has("b_blocked");
  product.m = rows;
  if (form.kind == Kind::kForward) {
    product.k = form.channels, product.n = form.filters;
    product.a = input, product.output = output;
    product.transpose_b = true;
  } else {
    product.k = form.filters, product.n = form.channels;
    product.a = output, product.output = input;
  }
  product.b = filter;
  product.output.dtype = form.result.dtype;
  return product;
}

BlockProduct kind_of(const NodeSignature& node) {
  const bool tiles = cpu_level() >= CpuLevel::kAmxBf16 && node.inputs[0].dtype == DType::kBF16;
  return tiles ? BlockProduct::kTiles : BlockProduct::kOnednn;
}

std::unique_ptr<PreparedMatmul> prepare(const NodeSignature& whole, int threads, std::string* why) {
  const auto refuse = [&](const std::string& reason) {
    *why = reason;
    return nullptr;
  };
  if (const std::string refused = refuse_epilogue(whole); !refused.empty()) return refuse(refused);
  const NodeSignature node = without_epilogue(whole);
  const ConvolutionForm form = convolution_form(node);
  if (!is_product(form)) return refuse("it is no matrix product");
  for (const TensorType& input : node.inputs)
    if (input.dtype != DType::kU8 && !cpu::has_vector_loads(input.dtype))
      return refuse("8-bit floating types are not for this kernel");
  if (form.samples * form.input_positions() * form.channels * form.filters == 0)
    return refuse("there is nothing to sum");
  if (node.inputs[0].dtype == DType::kF32 && form.kind == Kind::kForward && form.channels / form.chunks <= kShortSums)
    return refuse("short sums of f32 are for tiles, which need no pass for an epilogue");
  const DType bias = form.has_bias ? node.inputs[2].dtype : DType::kF32;
  std::optional<BlockedMatrix> blocked;
  if (node.attributes.has("b_blocked")) blocked = BlockedMatrix::parse(node.attributes.get_string("b_blocked"));
  return PreparedMatmul::make(kind_of(node), matmul_form_of(form, node), bias, blocked, threads, why,
                              Epilogue(whole, threads));
}

cpu::KernelAnswer ask(const NodeSignature& node, int threads) {
  return cpu::kept_answer("convolution product", node, threads, [&] {
    cpu::KernelAnswer answer;
    if (const auto prepared = prepare(node, threads, &answer.refused))
      answer = {.scratch_bytes = prepared->scratch_bytes()};
    return answer;
  });
}

class ProductFilterKernel : public Kernel {
 public:
  ProductFilterKernel(const BlockedMatrix& blocked, DType type, DType logical)
      : blocked_(blocked), type_(type), logical_(logical) {}
  void run(const KernelContext& context) const override {
    context.team.split(blocked_.blocks(), 1, [&](int64_t begin, int64_t end, int) {
      fill_blocks(blocked_, context.inputs[0], type_, logical_, {begin, end}, context.outputs[0]);
    });
  }

 private:
  BlockedMatrix blocked_;
  DType type_, logical_;
};

}  // namespace

KernelEntry convolution_product_entry(const std::string& op) {
  KernelEntry entry;
  entry.op = op;
  entry.name = "product";
  entry.refuse = [](const NodeSignature& node) { return ask(node, 1).refused; };
  entry.make = [](const NodeSignature& node, int threads) -> std::unique_ptr<Kernel> {
    std::string why;
    auto prepared = prepare(node, threads, &why);
    if (!prepared) internal_error("convolution_product_entry", "a product was chosen and then refused: " + why);
    return product_kernel(std::move(prepared), convolution_form(without_epilogue(node)).has_bias);
  };
  entry.scratch = [](const NodeSignature& node, int threads) { return ask(node, threads).scratch_bytes; };
  entry.blocking = [](const NodeSignature& whole, int input) -> std::optional<BlockedLayout> {
    const NodeSignature node = without_epilogue(whole);
    const ConvolutionForm form = convolution_form(node);
    if (input != 1 || node.attributes.has("b_blocked")) return std::nullopt;
    const auto blocked = PreparedMatmul::preferred_blocking(kind_of(node), matmul_form_of(form, node));
    if (!blocked) return std::nullopt;
    return BlockedLayout{blocked->format(), blocked->bytes()};
  };
  return entry;
}

KernelEntry product_filter_entry() {
  KernelEntry entry;
  entry.op = "block";
  entry.name = "product filter";
  entry.refuse = [](const NodeSignature& node) -> std::string {
    const auto blocked = BlockedMatrix::parse(node.attributes.get_string("format"));
    if (!blocked) return "unknown format";
    const TensorType& source = node.inputs[0];
    const std::vector<int64_t>& dims = source.shape.dims();
    const int64_t rows = blocked->transposed ? blocked->n : blocked->k,
                  columns = blocked->transposed ? blocked->k : blocked->n;
    const bool pointwise = dims.size() > 2 && dims[0] == rows && dims[1] == columns &&
                           std::all_of(dims.begin() + 2, dims.end(), [](int64_t extent) { return extent == 1; });
    if (!pointwise || !cpu::has_vector_loads(source.dtype)) return "the format is not for " + source.text();
    if (node.attributes.get_int("bytes") != blocked->bytes())
      return "the format takes " + std::to_string(blocked->bytes()) + " bytes";
    return "";
  };
  entry.make = [](const NodeSignature& node, int) -> std::unique_ptr<Kernel> {
    return std::make_unique<ProductFilterKernel>(*BlockedMatrix::parse(node.attributes.get_string("format")),
                                                 node.inputs[0].dtype, node.attributes.get_dtype("dtype"));
  };
  return entry;
}

}  // namespace ramet::kernel
