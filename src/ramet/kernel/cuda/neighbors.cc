// Sums, products, extremes and softmax over the edges of graphs (device/neighbors.cu, device/edge_expand.cu). The lists
// of edges are checked on the card, before what reads them (device/edge_lists.cu).

#include <algorithm>
#include <array>

#include "ramet/kernel/cuda/device/neighbors_arguments.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/unit_type.h"
#include "ramet/ops/neighbors.h"

namespace ramet::kernel::cuda {
namespace {

using ops::NeighborForm;
using ops::SegmentForm;
using ramet_device::EdgeArguments;
using ramet_device::EdgeListArguments;

const int* table(const KernelOperands& operands, size_t input) {
  return static_cast<const int*>(operands.inputs[input]);
}
const float* floats(const KernelOperands& operands, size_t input) {
  return static_cast<const float*>(operands.inputs[input]);
}

/// A fault has the least number that fits in the bits of its kind behind the list.
constexpr int64_t kMostEdges = int64_t{1} << 28;

/// A kernel that reads lists of edges.
class EdgeKernel : public CudaKernel {
 public:
  /// Segments: the pointers are input 1.
  EdgeKernel(NodeSignature node, const SegmentForm& form) : node_(std::move(node)) {
    lists_.batch = form.batch;
    lists_.edges = form.edges;
    lists_.pointers[0].rows = form.rows;
    lists_inputs_ = {1, -1, -1, -1, -1};
  }
  /// The five lists begin at input `first`.
  EdgeKernel(NodeSignature node, const NeighborForm& form, int first) : node_(std::move(node)) {
    lists_.batch = form.batch;
    lists_.edges = form.edges;
    lists_.pointers[0].rows = form.targets;
    lists_.pointers[1].rows = form.sources;
    const int64_t bounds[] = {form.sources, form.targets, form.edges};
    for (int i = 0; i < ramet_device::kNumberLists; ++i)
      lists_.numbers[i].bound = bounds[i], lists_.numbers[i].pointers = i == 0 ? 0 : 1;
    lists_inputs_ = {first + 1, first + 4, first, first + 2, first + 3};
  }

  void launch(CudaStream& stream, const KernelOperands& operands) const override {
    EdgeListArguments call = lists_;
    const auto input = [&](size_t list) {
      return lists_inputs_[list] < 0 ? nullptr : table(operands, static_cast<size_t>(lists_inputs_[list]));
    };
    for (size_t i = 0; i < 2; ++i) call.pointers[i].at = input(i);
    for (size_t i = 0; i < 3; ++i) call.numbers[i].at = input(2 + i);
    call.faults = stream.faults();
    call.kernel = stream.number_of(*this);
    const int64_t rows = std::max(call.pointers[0].rows, call.pointers[1].rows) + 1;
    if (call.batch > 0) stream.launch(check_, grid_for(call.batch * std::max<int64_t>(rows, call.edges)), call);
    work(stream, operands);
  }

  Error error_of(const CudaFault& fault) const override {
    constexpr const char* kNames[] = {"pointer ", "pointer ", "source", "target", "by_source"};
    const size_t list = fault.kind % 8;
    const bool pointers = list < 2;
    const int64_t extent = pointers ? lists_.pointers[list].rows + 1 : lists_.edges;
    const int64_t sample = fault.limit / extent, place = fault.limit % extent;
    const int64_t high = !pointers ? lists_.numbers[list - 2].bound - 1 : place == 0 ? 0 : lists_.edges;
    const std::string where = kNames[list] + ("[" + std::to_string(sample)) + "," + std::to_string(place) + "]";
    return ops::wrong_edge_list(node_, where, fault.found, fault.kind / 8, high);
  }

 protected:
  virtual void work(CudaStream& stream, const KernelOperands& operands) const = 0;

  /// For a function of neighbors.cu that works on `features` features a thread.
  static CudaFunction load(const char* name, int features = 1) {
    return load_cuda_function(cuda_device_source("neighbors.cu", {"kFeatures=" + std::to_string(features)}), name);
  }

  NodeSignature node_;

 private:
  EdgeListArguments lists_{};
  std::array<int, 5> lists_inputs_{};
  CudaFunction check_ = load_cuda_function(cuda_device_source("edge_lists.cu"), "edge_lists");
};

/// Features that a thread sums, of heads of `size`.
int features_at_once(int64_t size) { return size % 4 == 0 ? 4 : 1; }

class SegmentKernel final : public EdgeKernel {
 public:
  /// `name` is a function of neighbors.cu.
  SegmentKernel(const NodeSignature& node, const SegmentForm& form, const char* name)
      : EdgeKernel(node, form), sums_(name == std::string("edge_sums")) {
    call_.batch = form.batch, call_.rows = form.rows, call_.from_rows = call_.edges = form.edges;
    call_.width = form.width, call_.heads = 1;
    call_.mean = sums_ && node.attributes.get_bool_or("mean", false) ? 1 : 0;
    call_.sign = node.attributes.get_bool_or("least", false) ? -1.0f : 1.0f;
    features_ = sums_ ? features_at_once(form.width) : 1;
    function_ = load(name, features_);
  }

 private:
  void work(CudaStream& stream, const KernelOperands& operands) const override {
    EdgeArguments call = call_;
    call.x = floats(operands, 0);
    call.ptr = table(operands, 1);
    call.out = operands.outputs[0];
    if (operands.outputs.size() > 1) call.places = static_cast<int*>(operands.outputs[1]);
    const int64_t rows = call.batch * call.rows * (call.width / features_);
    stream.launch(function_, grid_for(rows), call);
  }

  bool sums_;
  int features_ = 1;
  EdgeArguments call_{};
  CudaFunction function_{};
};

class ExpandKernel final : public EdgeKernel {
 public:
  ExpandKernel(const NodeSignature& node, const SegmentForm& form) : EdgeKernel(node, form) {
    const int64_t bytes = form.width * static_cast<int64_t>(size_of(node.inputs[0].dtype));
    const int64_t unit = bytes == 0 ? 1 : std::min<int64_t>(16, bytes & -bytes);
    call_.batch = form.batch, call_.rows = form.rows, call_.edges = form.edges, call_.width = bytes / unit;
    function_ = load_cuda_function(cuda_device_source("edge_expand.cu", {"Unit=" + unit_type(unit)}), "edge_expand");
  }

 private:
  void work(CudaStream& stream, const KernelOperands& operands) const override {
    ramet_device::ExpandArguments call = call_;
    call.x = operands.inputs[0];
    call.ptr = table(operands, 1);
    call.out = operands.outputs[0];
    stream.launch(function_, grid_for(call.batch * call.edges * call.width), call);
  }

  ramet_device::ExpandArguments call_{};
  CudaFunction function_{};
};

class NeighborSumKernel final : public EdgeKernel {
 public:
  NeighborSumKernel(const NodeSignature& node, const NeighborForm& form) : EdgeKernel(node, form, 1), form_(form) {
    call_.batch = form.batch, call_.rows = form.to(), call_.from_rows = form.from(), call_.edges = form.edges;
    call_.width = form.width, call_.heads = std::max<int64_t>(1, form.heads);
    features_ = features_at_once(call_.width / call_.heads);
    function_ = load("edge_sums", features_);
  }

 private:
  void work(CudaStream& stream, const KernelOperands& operands) const override {
    EdgeArguments call = call_;
    call.x = floats(operands, 0);
    call.from = table(operands, form_.transposed ? 3 : 1);
    call.edge = form_.transposed ? table(operands, 4) : nullptr;
    call.weight = form_.weighted ? floats(operands, 6) : nullptr;
    call.ptr = table(operands, form_.transposed ? 5 : 2);
    call.out = operands.outputs[0];
    stream.launch(function_, grid_for(call.batch * call.rows * (call.width / features_)), call);
  }

  NeighborForm form_;
  int features_ = 1;
  EdgeArguments call_{};
  CudaFunction function_{};
};

class NeighborDotKernel final : public EdgeKernel {
 public:
  NeighborDotKernel(const NodeSignature& node, const NeighborForm& form) : EdgeKernel(node, form, 2) {
    call_.batch = form.batch, call_.rows = form.targets, call_.from_rows = form.sources, call_.edges = form.edges;
    call_.width = form.width, call_.heads = std::max<int64_t>(1, form.heads);
    function_ = load("edge_products");
  }

 private:
  void work(CudaStream& stream, const KernelOperands& operands) const override {
    EdgeArguments call = call_;
    call.x = floats(operands, 0);
    call.b = floats(operands, 1);
    call.from = table(operands, 2);
    call.ptr = table(operands, 3);
    call.out = operands.outputs[0];
    stream.launch(function_, grid_for(call.batch * call.edges * call.heads * 16), call);
  }

  EdgeArguments call_{};
  CudaFunction function_{};
};

std::string refuse_edges(const NodeSignature& node, int64_t edges, bool any_type = false) {
  if (!any_type && node.inputs[0].dtype != DType::kF32) return "it computes f32";
  return edges > kMostEdges ? "too many edges" : "";
}

void add_segments(Backend& backend, const std::string& op, const char* function) {
  add_card(backend,
           {.op = op,
            .refuse = [](const NodeSignature& node) { return refuse_edges(node, ops::segment_form(node).edges); },
            .make = [function](const NodeSignature& node) -> std::unique_ptr<CudaKernel> {
              return std::make_unique<SegmentKernel>(node, ops::segment_form(node), function);
            }});
}

}  // namespace

void add_cuda_neighbors(Backend& backend) {
  add_segments(backend, "segment_sum", "edge_sums");
  add_segments(backend, "segment_extreme", "edge_extremes");
  add_segments(backend, "segment_softmax", "edge_softmax");
  add_card(backend,
           {.op = "segment_expand",
            .refuse = [](const NodeSignature& node) { return refuse_edges(node, ops::expand_form(node).edges, true); },
            .make = [](const NodeSignature& node) -> std::unique_ptr<CudaKernel> {
              return std::make_unique<ExpandKernel>(node, ops::expand_form(node));
            },
            .any_type = true});
  add_card(backend,
           {.op = "neighbor_sum",
            .refuse = [](const NodeSignature& node) { return refuse_edges(node, ops::neighbor_sum_form(node).edges); },
            .make = [](const NodeSignature& node) -> std::unique_ptr<CudaKernel> {
              return std::make_unique<NeighborSumKernel>(node, ops::neighbor_sum_form(node));
            }});
  add_card(backend,
           {.op = "neighbor_dot",
            .refuse = [](const NodeSignature& node) { return refuse_edges(node, ops::neighbor_dot_form(node).edges); },
            .make = [](const NodeSignature& node) -> std::unique_ptr<CudaKernel> {
              return std::make_unique<NeighborDotKernel>(node, ops::neighbor_dot_form(node));
            }});
}

}  // namespace ramet::kernel::cuda
