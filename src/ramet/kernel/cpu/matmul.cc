#include "ramet/kernel/cpu/matmul.h"

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/kept_answers.h"

namespace ramet::kernel {
namespace {

const char* name_of(BlockProduct kind) {
  switch (kind) {
    case BlockProduct::kTiles: return "tiles";
    case BlockProduct::kOnednn: return "onednn";
    case BlockProduct::kHopper: return "hopper";
    default: return "plain";
  }
}

std::unique_ptr<PreparedMatmul> prepare_product(BlockProduct kind, const NodeSignature& node, int threads,
                                                std::string* why) {
  const MatmulForm form = matmul_form(node);
  const DType bias = form.has_bias ? node.inputs[2].dtype : DType::kF32;
  std::optional<BlockedMatrix> blocked;
  if (form.blocked) blocked = BlockedMatrix::parse(node.attributes.get_string("b_blocked"));
  if (bias != DType::kF32 && size_of(bias) < 2) {
    *why = "8-bit floating types are not for this kernel";
    return nullptr;
  }
  return PreparedMatmul::make(kind, form, bias, blocked, threads, why);
}

cpu::KernelAnswer ask(BlockProduct kind, const NodeSignature& node, int threads) {
  return cpu::kept_answer(name_of(kind), node, threads, [&] {
    cpu::KernelAnswer answer;
    if (const auto prepared = prepare_product(kind, node, threads, &answer.refused))
      answer = {.scratch_bytes = prepared->scratch_bytes()};
    return answer;
  });
}

class BlockingKernel : public Kernel {
 public:
  BlockingKernel(const BlockedMatrix& blocked, DType type, DType logical)
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

std::string refuse_block(const NodeSignature& node) {
  const auto blocked = BlockedMatrix::parse(node.attributes.get_string("format"));
  if (!blocked) return "unknown format";
  const TensorType& source = node.inputs[0];
  const Shape expected = blocked->transposed ? Shape{blocked->n, blocked->k} : Shape{blocked->k, blocked->n};
  const DType logical = node.attributes.get_dtype("dtype");
  const bool rounds_to_f8 = size_of(logical) == 1 && source.dtype != logical;
  if (source.shape != expected || !is_floating(source.dtype) || rounds_to_f8)
    return "the format is not for " + source.text();
  if (node.attributes.get_int("bytes") != blocked->bytes())
    return "the format takes " + std::to_string(blocked->bytes()) + " bytes";
  return "";
}

KernelEntry block_entry() {
  KernelEntry entry;
  entry.op = "block";
  entry.name = "blocked";
  entry.refuse = refuse_block;
  entry.make = [](const NodeSignature& node, int) -> std::unique_ptr<Kernel> {
    return std::make_unique<BlockingKernel>(*BlockedMatrix::parse(node.attributes.get_string("format")),
                                            node.inputs[0].dtype, node.attributes.get_dtype("dtype"));
  };
  return entry;
}

}  // namespace

KernelEntry matmul_entry(const std::string& op, BlockProduct kind) {
  KernelEntry entry;
  entry.op = op;
  entry.name = name_of(kind);
  entry.refuse = [kind](const NodeSignature& node) { return ask(kind, node, 1).refused; };
  entry.make = [kind](const NodeSignature& node, int threads) -> std::unique_ptr<Kernel> {
    std::string why;
    auto prepared = prepare_product(kind, node, threads, &why);
    if (!prepared) internal_error("matmul_entry", "a product was chosen and then refused: " + why);
    return product_kernel(std::move(prepared), node.inputs.size() > 2);
  };
  entry.scratch = [kind](const NodeSignature& node, int threads) { return ask(kind, node, threads).scratch_bytes; };
  entry.may_alias = [](const NodeSignature& node) -> std::vector<std::pair<int, int>> {
    if (node.attributes.get_bool_or("accumulate", false)) return {{2, 0}};
    return {};
  };
  entry.blocking = [kind](const NodeSignature& node, int input) -> std::optional<BlockedLayout> {
    if (input != 1) return std::nullopt;
    MatmulForm form = matmul_form(node);
    // A stack of matrices is blocked as it is used: one at a time stays in the cache.
    if (form.blocked || form.b.shape.rank() != 2 || form.batch != 1) return std::nullopt;
    const auto blocked = PreparedMatmul::preferred_blocking(kind, form);
    if (!blocked) return std::nullopt;
    return BlockedLayout{blocked->format(), blocked->bytes()};
  };
  return entry;
}

void add_cpu_matmul(Backend& backend) {
  cpu_level();
  for (const std::string op : {"matmul", "linear"})
    for (const BlockProduct kind : {BlockProduct::kTiles, BlockProduct::kOnednn, BlockProduct::kPlain})
      backend.add(matmul_entry(op, kind));
  backend.add(block_entry());
}

}  // namespace ramet::kernel
