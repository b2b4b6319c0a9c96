#include "ramet/kernel/hopper/hopper.h"

#include <algorithm>

#include "ramet/ir/op.h"
#include "ramet/kernel/cpu/attention.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/matmul.h"
#include "ramet/kernel/hopper/product.h"

namespace ramet::kernel {
namespace {

bool any_type(const NodeSignature& node, bool (*holds)(DType)) {
  const auto found = [&](const std::vector<TensorType>& types) {
    return std::any_of(types.begin(), types.end(), [&](const TensorType& type) { return holds(type.dtype); });
  };
  return found(node.inputs) || found(node.outputs);
}

/// A kernel of the CPU that is not part of the class for floating types.
KernelEntry for_integers_only(KernelEntry entry) {
  entry.refuse = [own = std::move(entry.refuse)](const NodeSignature& node) {
    if (any_type(node, is_floating)) return std::string("this class has kernels of its own for floating types");
    return own ? own(node) : std::string();
  };
  return entry;
}

KernelEntry product_entry(const std::string& op, BlockProduct kind) {
  KernelEntry entry = matmul_entry(op, kind);
  entry.blocking = {};  // tensor cores read weights as they lie in memory
  return entry;
}

/// Ops whose kernels for the CPU rest on the processor's own products of 16-bit types.
bool rests_on_products(const std::string& op) {
  for (const char* family : {"convolution", "lstm", "gru", "rnn"})
    if (op.starts_with(family)) return true;
  return false;
}

bool is_attention(const std::string& op) {
  return op == "attention" || op == "attention_grad" || op == "cached_attention";
}

void attention_product(const TileProduct& product) { hopper_product(HopperType::kBf16, product); }

Backend make_backend() {
  Backend made(hopper_kernel_class());
  add_tiled_attention(made, attention_product);
  for (const std::string op : {"matmul", "linear"}) {
    for (const BlockProduct kind : {BlockProduct::kHopper, BlockProduct::kPlain}) made.add(product_entry(op, kind));
    made.add(for_integers_only(cpu_backend().entries(op).back()));
  }
  for (const OpDef* op : OpRegistry::instance().all()) {
    if (op->name == "matmul" || op->name == "linear" || op->name == "block" || is_attention(op->name) ||
        rests_on_products(op->name))
      continue;
    for (const KernelEntry& entry : cpu_backend().entries(op->name)) made.add(entry);
  }
  return made;
}

}  // namespace

std::string hopper_kernel_class() {
  return cpu_level() >= CpuLevel::kAvx512 ? "hopper" : "hopper-" + name_of(cpu_level());
}

const Backend& hopper_backend() {
  static const Backend backend = make_backend();
  return backend;
}

}  // namespace ramet::kernel
