// Rows of tables by indices, and sums by row (device/gather.cu, device/scatter.cu, device/one_hot.cu).

#include <algorithm>
#include <bit>
#include <cstring>

#include "ramet/kernel/cuda/device/gather_arguments.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"
#include "ramet/kernel/cuda/unit_type.h"
#include "ramet/ops/position.h"
#include "ramet/ops/rules.h"

namespace ramet::kernel::cuda {
namespace {

constexpr int kThreads = 256;

/// Elements behind the first dimension.
int64_t row_elements(const Shape& shape) {
  int64_t elements = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) elements *= shape.dim(axis);
  return elements;
}

std::string number_type(DType dtype) { return dtype == DType::kI64 ? "long long" : "int"; }

/// 2^n threads do a row of `pieces`.
int lane_bits_for(int64_t pieces) {
  return std::bit_width(static_cast<uint64_t>(std::clamp<int64_t>(pieces, 1, kThreads) - 1));
}

/// A kernel that reads indices of rows: one out of range is an error.
class IndexedKernel : public CudaKernel {
 public:
  IndexedKernel(const NodeSignature& node, size_t index, int64_t rows) : node_(node), index_(index), rows_(rows) {}
  Error error_of(const CudaFault& fault) const override {
    return Error({.what = "index out of range",
                  .where = node_.text() + ", index position " + std::to_string(fault.kind),
                  .found = std::to_string(fault.found),
                  .expected = "0 to " + std::to_string(rows_ - 1)},
                 ErrorKind::kFailure);
  }

 protected:
  int64_t indices() const { return node_.inputs[index_].elements(); }
  std::string number() const { return "Number=" + number_type(node_.inputs[index_].dtype); }

  NodeSignature node_;
  size_t index_;
  int64_t rows_;
};

class GatherKernel final : public IndexedKernel {
 public:
  explicit GatherKernel(const NodeSignature& node) : IndexedKernel(node, 1, node.inputs[0].shape.dim(0)) {
    const int64_t bytes = row_elements(node.inputs[0].shape) * static_cast<int64_t>(size_of(node.inputs[0].dtype));
    const int64_t unit = std::min<int64_t>(16, bytes & -bytes);
    if (bytes == 0) return;
    width_ = bytes / unit;
    function_ = load_cuda_function(cuda_device_source("gather.cu", {number(), "Unit=" + unit_type(unit)}), "gather");
  }
  void launch(CudaStream& stream, const KernelOperands& operands) const override {
    if (width_ == 0 || indices() == 0) return;
    ramet_device::GatherArguments a{.indices = indices(),
                                    .rows = rows_,
                                    .width = width_,
                                    .lane_bits = lane_bits_for(width_),
                                    .index = operands.inputs[1],
                                    .table = operands.inputs[0],
                                    .out = operands.outputs[0],
                                    .faults = stream.faults(),
                                    .kernel = stream.number_of(*this)};
    stream.launch(function_, grid_for(a.indices << a.lane_bits, kThreads), a);
  }

 private:
  int64_t width_ = 0;
  CudaFunction function_;
};

/// Room of scatter_add, in integers of 32 bits, by their order (ScatterArguments).
struct ScatterRoom {
  int64_t first = 0, many, place, order, end;
  explicit ScatterRoom(const NodeSignature& node) {
    const int64_t rows = node.outputs[0].shape.dim(0), positions = node.inputs[0].elements();
    many = rows + 1;
    place = many + 1 + std::min(rows, positions);
    order = place + positions;
    end = order + positions;
  }
};

class ScatterKernel final : public IndexedKernel {
 public:
  explicit ScatterKernel(const NodeSignature& node)
      : IndexedKernel(node, 0, node.outputs[0].shape.dim(0)), room_(node), width_(row_elements(node.outputs[0].shape)) {
    if (node.outputs[0].elements() == 0) return;
    columns_ = static_cast<int>(std::min<int64_t>(4, width_ & -width_));
    const CudaSource source = cuda_device_source(
        "scatter.cu", {number(), "Update=" + storage_of(node.inputs[1].dtype),
                       "Result=" + storage_of(node.outputs[0].dtype), "kColumns=" + std::to_string(columns_)});
    for (const auto& [function, name] : {std::pair{&count_, "scatter_count"},
                                         {&scan_, "scatter_scan"},
                                         {&place_, "scatter_place"},
                                         {&sort_, "scatter_sort"},
                                         {&sort_many_, "scatter_sort_many"},
                                         {&few_, "scatter_few"},
                                         {&many_, "scatter_many"}})
      *function = load_cuda_function(source, name);
  }

  static int64_t scratch(const NodeSignature& node) { return ScatterRoom(node).end * 4; }

  void launch(CudaStream& stream, const KernelOperands& operands) const override {
    if (node_.outputs[0].elements() == 0) return;
    auto* const room = static_cast<int*>(operands.scratch);
    ramet_device::ScatterArguments a{.positions = indices(),
                                     .rows = rows_,
                                     .width = width_,
                                     .lane_bits = lane_bits_for(width_ / columns_),
                                     .index = operands.inputs[0],
                                     .updates = operands.inputs[1],
                                     .base = operands.inputs.size() > 2 ? operands.inputs[2] : nullptr,
                                     .out = operands.outputs[0],
                                     .first = room + room_.first,
                                     .place = room + room_.place,
                                     .order = room + room_.order,
                                     .many = room + room_.many,
                                     .faults = stream.faults(),
                                     .kernel = stream.number_of(*this)};
    stream.fill(room, 0, (room_.many + 1) * 4);  // counters, and the length of the list
    stream.launch(count_, grid_for(a.positions), a);
    stream.launch(scan_, {.x = 1, .threads = 1024}, a);
    stream.launch(place_, grid_for(a.positions), a);
    stream.launch(sort_, grid_for(rows_ * 32), a);
    const int64_t most_many = std::min<int64_t>(rows_, a.positions / kMany);
    if (most_many > 0)
      stream.launch(sort_many_, {.x = std::min<int64_t>(most_many, kProcessors * 2), .threads = 1024}, a);
    stream.launch(few_, grid_for(rows_ << a.lane_bits), a);
    if (most_many > 0) stream.launch(many_, grid_for(most_many * ((width_ + 31) / 32) * kThreads), a);
  }

 private:
  static constexpr int64_t kMany = 64;  ///< of device/scatter.cu

  ScatterRoom room_;
  int64_t width_;
  int columns_ = 1;
  CudaFunction count_, scan_, place_, sort_, sort_many_, few_, many_;
};

std::unique_ptr<CudaKernel> make_one_hot(const NodeSignature& node) {
  const DType dtype = node.outputs[0].dtype;
  ramet_device::OneHotArguments numbers{};
  numbers.elements = node.outputs[0].elements();
  numbers.depth = node.attributes.get_int("depth");
  store_element(&numbers.one, dtype, 0, 1);
  const CudaFunction function =
      load_cuda_function(cuda_device_source("one_hot.cu", {"Number=" + number_type(node.inputs[0].dtype),
                                                           "Unit=" + unit_type(static_cast<int64_t>(size_of(dtype)))}),
                         "one_hot");
  return std::make_unique<StreamKernel>([=](CudaStream& stream, const KernelOperands& operands) {
    if (numbers.elements == 0) return;
    ramet_device::OneHotArguments a = numbers;
    a.index = operands.inputs[0], a.out = operands.outputs[0];
    stream.launch(function, grid_for(a.elements), a);
  });
}

std::string refuse_gather(const NodeSignature& node) {
  return ops::Position(node).whole() ? "" : "a part of the table lies on another device";
}

std::string refuse_scatter(const NodeSignature& node) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (node.inputs[0].elements() >= kMost || node.outputs[0].shape.dim(0) >= kMost - 1) return "more than 2^31 rows";
  for (const TensorType& type : {node.inputs[1], node.outputs[0]})
    if (type.dtype == DType::kF64) return "it adds no f64";
  return ops::Position(node).whole() ? "" : "a part of the rows lies on another device";
}

}  // namespace

void add_cuda_gather(Backend& backend) {
  add_card(backend, {.op = "gather",
                     .refuse = refuse_gather,
                     .make = [](const NodeSignature& node) { return std::make_unique<GatherKernel>(node); },
                     .any_type = true});
  add_card(backend, {.op = "scatter_add",
                     .refuse = refuse_scatter,
                     .make = [](const NodeSignature& node) { return std::make_unique<ScatterKernel>(node); },
                     .scratch = ScatterKernel::scratch,
                     .aliases = {{2, 0}}});
  add_card(backend, {.op = "one_hot", .refuse = [](const NodeSignature&) { return ""; }, .make = make_one_hot});
}

}  // namespace ramet::kernel::cuda
