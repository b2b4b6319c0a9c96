#include <algorithm>

#include "ramet/ir/op.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/hopper/hopper.h"

// Kernels of the host as kernels of the card: the stream is waited for, operands are copied to the host, the kernel
// runs there, and its outputs are copied back. Slow, and right: what a card has no kernel for trains all the same.

namespace ramet::kernel::cuda {
namespace {

class HostKernel final : public CudaKernel {
 public:
  HostKernel(std::unique_ptr<Kernel> kernel, const NodeSignature& node, int64_t scratch_bytes)
      : kernel_(std::move(kernel)), scratch_bytes_(scratch_bytes) {
    for (const TensorType& type : node.inputs) input_bytes_.push_back(type.bytes());
    for (const TensorType& type : node.outputs) output_bytes_.push_back(type.bytes());
  }

  bool recordable() const override { return false; }
  void launch(CudaStream& stream, const KernelOperands& operands) const override {
    Places places;
    for (size_t i = 0; i < input_bytes_.size(); ++i) places.add(operands.inputs[i], input_bytes_[i]);
    for (size_t i = 0; i < output_bytes_.size(); ++i) places.add(operands.outputs[i], output_bytes_[i]);
    std::byte* room = stream.host_room(places.bytes + scratch_bytes_);
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (size_t i = 0; i < input_bytes_.size(); ++i) {
      std::byte* place = room + places.of(operands.inputs[i]);
      stream.copy_out_now(place, operands.inputs[i], input_bytes_[i]);
      inputs.push_back(place);
    }
    for (void* output : operands.outputs) outputs.push_back(room + places.of(output));
    kernel_->run({inputs, outputs, room + places.bytes, stream.team()});
    for (size_t i = 0; i < output_bytes_.size(); ++i)
      stream.copy_in_now(operands.outputs[i], outputs[i], output_bytes_[i]);
  }

 private:
  /// Where operands lie on the host. What shares an address on the card shares one here.
  struct Places {
    struct Place {
      const void* device;
      int64_t offset, room;
    };
    std::vector<Place> all;
    int64_t bytes = 0;

    void add(const void* device, int64_t operand_bytes) {
      constexpr int64_t kAlignment = 64;
      const int64_t room = (operand_bytes + kAlignment - 1) / kAlignment * kAlignment;
      Place* known = find(device);
      if (known && known->room >= room) return;
      // A larger operand at an address that is known takes the place over; the smaller one is at its beginning.
      if (known) known->offset = bytes, known->room = room;
      if (!known) all.push_back({device, bytes, room});
      bytes += room;
    }
    int64_t of(const void* device) { return find(device)->offset; }
    Place* find(const void* device) {
      const auto found = std::find_if(all.begin(), all.end(), [&](const Place& each) { return each.device == device; });
      return found == all.end() ? nullptr : &*found;
    }
  };

  std::unique_ptr<Kernel> kernel_;
  int64_t scratch_bytes_;
  std::vector<int64_t> input_bytes_, output_bytes_;
};

KernelEntry wrapped(const KernelEntry& host) {
  KernelEntry entry;
  entry.op = host.op;
  entry.name = "host:" + host.name;
  entry.any_type = true;  // `refuse` of the host's entry says what it takes
  entry.refuse = host.refuse;
  entry.make = [&host](const NodeSignature& node, int threads) -> std::unique_ptr<Kernel> {
    const int64_t scratch = host.scratch ? host.scratch(node, threads) : 0;
    return std::make_unique<HostKernel>(host.make(node, threads), node, scratch);
  };
  entry.may_alias = host.may_alias;
  return entry;
}

}  // namespace

void add_host_kernels(Backend& backend) {
  for (const OpDef* op : OpRegistry::instance().all())
    for (const KernelEntry& host : hopper_backend().entries(op->name)) backend.add(wrapped(host));
}

}  // namespace ramet::kernel::cuda
