#include "ramet/kernel/reference/reference.h"

#include "ramet/base/error.h"

namespace ramet::kernel {

// One function a family; each adds the kernels of its file.
void add_reference_map(Backend& backend);
void add_reference_shape(Backend& backend);
void add_reference_states(Backend& backend);
void add_reference_parts(Backend& backend);
void add_reference_indexing(Backend& backend);
void add_reference_take(Backend& backend);
void add_reference_order(Backend& backend);
void add_reference_reduce(Backend& backend);
void add_reference_matmul(Backend& backend);
void add_reference_sparse(Backend& backend);
void add_reference_sparse_evolve(Backend& backend);
void add_reference_edge_map(Backend& backend);
void add_reference_neighbors(Backend& backend);
void add_reference_segment_heads(Backend& backend);
void add_reference_radial(Backend& backend);
void add_reference_pairs(Backend& backend);
void add_reference_paths(Backend& backend);
void add_reference_normalize(Backend& backend);
void add_reference_channel_norm(Backend& backend);
void add_reference_pooling(Backend& backend);
void add_reference_convolution(Backend& backend);
void add_reference_attention(Backend& backend);
void add_reference_cache(Backend& backend);
void add_reference_recurrent(Backend& backend);
void add_reference_loss(Backend& backend);
void add_reference_loss_rows(Backend& backend);
void add_reference_ctc(Backend& backend);
void add_reference_draw(Backend& backend);
void add_reference_optimizer(Backend& backend);
void add_reference_narrow(Backend& backend);
void add_reference_large_batch_optimizer(Backend& backend);
void add_reference_exponents(Backend& backend);
void add_reference_resize(Backend& backend);

namespace {

class ReferenceKernel : public Kernel {
 public:
  ReferenceKernel(NodeSignature node, std::function<void(const ReferenceOperands&)> run)
      : node_(std::move(node)), run_(std::move(run)) {}
  void run(const KernelContext& context) const override { run_(ReferenceOperands(node_, context)); }

 private:
  NodeSignature node_;
  std::function<void(const ReferenceOperands&)> run_;
};

}  // namespace

const Backend& reference_backend() {
  static const Backend backend = [] {
    Backend reference("reference");
    add_reference_kernels(reference);
    return reference;
  }();
  return backend;
}

void add_reference_kernels(Backend& backend) {
  add_reference_map(backend);
  add_reference_shape(backend);
  add_reference_states(backend);
  add_reference_parts(backend);
  add_reference_indexing(backend);
  add_reference_take(backend);
  add_reference_order(backend);
  add_reference_reduce(backend);
  add_reference_matmul(backend);
  add_reference_sparse(backend);
  add_reference_sparse_evolve(backend);
  add_reference_edge_map(backend);
  add_reference_neighbors(backend);
  add_reference_segment_heads(backend);
  add_reference_radial(backend);
  add_reference_pairs(backend);
  add_reference_paths(backend);
  add_reference_normalize(backend);
  add_reference_channel_norm(backend);
  add_reference_pooling(backend);
  add_reference_convolution(backend);
  add_reference_attention(backend);
  add_reference_cache(backend);
  add_reference_recurrent(backend);
  add_reference_loss(backend);
  add_reference_loss_rows(backend);
  add_reference_ctc(backend);
  add_reference_draw(backend);
  add_reference_optimizer(backend);
  add_reference_narrow(backend);
  add_reference_large_batch_optimizer(backend);
  add_reference_exponents(backend);
  add_reference_resize(backend);
}

void add_reference(Backend& backend, const std::string& op, std::function<void(const ReferenceOperands&)> run,
                   std::function<std::string(const NodeSignature&)> refuse) {
  KernelEntry entry;
  entry.op = op;
  entry.name = "reference";
  entry.any_type = true;
  entry.refuse = std::move(refuse);
  entry.make = [run = std::move(run)](const NodeSignature& node, int) -> std::unique_ptr<Kernel> {
    return std::make_unique<ReferenceKernel>(node, run);
  };
  backend.add(std::move(entry));
}

int64_t ReferenceOperands::get_int(int input, int64_t index) const {
  return load_integer(input_bytes(input), input_type(input).dtype, index);
}

void ReferenceOperands::set_int(int output, int64_t index, int64_t value) const {
  store_integer(output_bytes(output), output_type(output).dtype, index, value);
}

void for_each_index(const Shape& shape, const std::function<void(const std::vector<int64_t>& index)>& visit) {
  if (shape.elements() == 0) return;
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()), 0);
  while (true) {
    visit(index);
    int axis = shape.rank() - 1;
    while (axis >= 0 && ++index[static_cast<size_t>(axis)] == shape.dim(axis)) index[static_cast<size_t>(axis--)] = 0;
    if (axis < 0) return;
  }
}

int64_t broadcast_offset(const Shape& shape, const std::vector<int64_t>& index) {
  int64_t offset = 0;
  const size_t extra = index.size() - static_cast<size_t>(shape.rank());
  for (int axis = 0; axis < shape.rank(); ++axis)
    offset = offset * shape.dim(axis) + (shape.dim(axis) == 1 ? 0 : index[extra + static_cast<size_t>(axis)]);
  return offset;
}

}  // namespace ramet::kernel
