#include "ramet/kernel/cpu/attention.h"

#include "ramet/kernel/cpu/rotary.h"
#include "ramet/kernel/cpu/tiled_attention.h"

namespace ramet::kernel {
namespace {

/// An address `offset` elements further; null stays null.
template <typename P>
P* further(P* base, int64_t offset, DType dtype) {
  using Byte = std::conditional_t<std::is_const_v<P>, const char, char>;
  return base ? static_cast<Byte*>(base) + offset * static_cast<int64_t>(size_of(dtype)) : nullptr;
}

class AttentionKernel : public Kernel {
 public:
  AttentionKernel(const AttentionForm& form, bool gradient, int threads, TileProductFunction bf16_product)
      : form_(form), gradient_(gradient), tiled_(form, gradient, threads, bf16_product) {}

  void run(const KernelContext& context) const override {
    AttentionOperands operands;
    const auto input = [&](int index) { return index < 0 ? nullptr : context.inputs[static_cast<size_t>(index)]; };
    const auto part = [&](int index, int which) {
      return further(input(form_.joint ? 0 : index), form_.part_offset(which), form_.dtype);
    };
    operands.query = part(form_.query, 0);
    operands.key = part(form_.key, 1);
    operands.value = part(form_.value, 2);
    operands.bias = input(form_.bias);
    operands.slopes = static_cast<const float*>(input(form_.slopes));
    operands.mask = input(form_.mask);
    operands.counter = static_cast<const int64_t*>(input(form_.counter));
    operands.first = static_cast<const int32_t*>(input(form_.first));
    if (!gradient_) {
      operands.out = context.outputs[0];
      operands.lse = context.outputs.size() > 1 ? static_cast<float*>(context.outputs[1]) : nullptr;
    } else {
      operands.out = const_cast<void*>(input(form_.out));
      operands.lse = static_cast<float*>(const_cast<void*>(input(form_.lse)));
      operands.dout = input(form_.dout);
      const auto gradient = [&](int which) {
        return further(context.outputs[form_.joint ? 0 : static_cast<size_t>(which)], form_.part_offset(which),
                       form_.dtype);
      };
      operands.dquery = gradient(0);
      operands.dkey = gradient(1);
      operands.dvalue = gradient(2);
      if (form_.bias_gradient) operands.dbias = static_cast<float*>(context.outputs.back());
    }
    tiled_.run(operands, context.scratch, context.team);
  }

 private:
  AttentionForm form_;
  bool gradient_;
  TiledAttention tiled_;
};

KernelEntry attention_entry(const std::string& op, bool gradient, AttentionForm (*form)(const NodeSignature&),
                            TileProductFunction product) {
  KernelEntry entry;
  entry.op = op;
  entry.name = "tiles";
  entry.refuse = [form](const NodeSignature& node) { return TiledAttention::refuse(form(node)); };
  entry.make = [gradient, form, product](const NodeSignature& node, int threads) -> std::unique_ptr<Kernel> {
    return std::make_unique<AttentionKernel>(form(node), gradient, threads, product);
  };
  entry.scratch = [gradient, form, product](const NodeSignature& node, int threads) {
    return TiledAttention(form(node), gradient, threads, product).scratch_bytes();
  };
  return entry;
}

}  // namespace

void add_tiled_attention(Backend& backend, TileProductFunction bf16_product) {
  backend.add(attention_entry("attention", false, attention_form, bf16_product));
  backend.add(attention_entry("attention_grad", true, attention_form, bf16_product));
  backend.add(attention_entry("cached_attention", false, cached_attention_form, bf16_product));
}

void add_cpu_attention(Backend& backend) {
  add_tiled_attention(backend, nullptr);
  add_cpu_rotary(backend);
}

}  // namespace ramet::kernel
