// Ops that move elements, or make them from nothing (device/move.cu, device/turn.cu, device/make.cu).

#include <algorithm>
#include <bit>
#include <cstring>

#include "ramet/kernel/cuda/device/move_arguments.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"
#include "ramet/kernel/cuda/unit_type.h"
#include "ramet/ops/element_moves.h"
#include "ramet/ops/position.h"
#include "ramet/ops/rules.h"

namespace ramet::kernel::cuda {
namespace {

using ops::ElementMove;
using Run = StreamKernel::Function;

constexpr int64_t kNarrowUnits = int64_t{1} << 31;  ///< below so many, indices are divided in 32 bits
constexpr int64_t kTile = 64, kLeastTurned = 16;    ///< of device/turn.cu; what is thinner is moved by elements

int64_t size_in(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

std::vector<std::string> definitions(int64_t unit, size_t dims, int64_t indices) {
  return {"Unit=" + unit_type(unit), "kDims=" + std::to_string(dims),
          std::string("kWide=") + (indices < kNarrowUnits ? "0" : "1")};
}

template <typename Arguments>
void set_dims(const ElementMove& move, size_t dims, Arguments& a) {
  for (size_t d = 0; d < dims; ++d) {
    a.extents[d] = ramet_device::divider_of(move.extents[d]);
    a.from_strides[d] = move.from[d], a.to_strides[d] = move.to[d];
  }
}

const void* input_of(const ElementMove& move, int64_t size, const KernelOperands& operands) {
  return static_cast<const char*>(operands.inputs[static_cast<size_t>(move.input)]) + move.from_start * size;
}
void* output_of(const ElementMove& move, int64_t size, const KernelOperands& operands) {
  return static_cast<char*>(operands.outputs[static_cast<size_t>(move.output)]) + move.to_start * size;
}

/// The move by units of several elements where these lie together on both sides, and how many bytes a unit has.
ElementMove in_units(ElementMove move, int64_t size, int64_t* unit) {
  *unit = size;
  if (move.from.back() != 1 || move.to.back() != 1) return move;
  int64_t all = move.extents.back() | move.from_start | move.to_start;
  for (size_t d = 0; d + 1 < move.extents.size(); ++d) all |= move.from[d] | move.to[d];
  const int64_t together = std::min(16 / size, all & -all);
  *unit = size * together;
  move.extents.back() /= together;
  move.from_start /= together, move.to_start /= together;
  for (size_t d = 0; d + 1 < move.extents.size(); ++d) move.from[d] /= together, move.to[d] /= together;
  return move;
}

Run make_units(const ElementMove& elements, int64_t size) {
  int64_t unit = size;
  const ElementMove move = in_units(elements, size, &unit);
  ramet_device::MoveArguments numbers{};
  numbers.units = move.elements();
  set_dims(move, move.extents.size(), numbers);
  const CudaFunction function =
      load_cuda_function(cuda_device_source("move.cu", definitions(unit, move.extents.size(), numbers.units)), "move");
  return [=](CudaStream& stream, const KernelOperands& operands) {
    ramet_device::MoveArguments a = numbers;
    a.from = input_of(move, unit, operands), a.to = output_of(move, unit, operands);
    stream.launch(function, grid_for(a.units), a);
  };
}

/// Dimension of the move along which its source is dense, to be turned with the last one, along which the result is;
/// -1 when it is moved by units.
int turned_dim(const ElementMove& move) {
  if (move.to.back() != 1 || move.from.back() == 1 || move.extents.back() < kLeastTurned) return -1;
  for (size_t d = 0; d + 1 < move.extents.size(); ++d)
    if (move.from[d] == 1 && move.extents[d] >= kLeastTurned) return static_cast<int>(d);
  return -1;
}

Run make_turn(ElementMove move, int dim, int64_t size) {
  ramet_device::TurnArguments numbers{};
  const auto at = static_cast<size_t>(dim);
  numbers.columns = move.extents.back(), numbers.from_step = move.from.back();
  numbers.rows = move.extents[at], numbers.to_step = move.to[at];
  numbers.planes = 1;
  for (std::vector<int64_t>* list : {&move.extents, &move.from, &move.to}) {
    list->pop_back();
    list->erase(list->begin() + dim);
  }
  numbers.planes = move.elements();
  set_dims(move, move.extents.size(), numbers);
  const CudaFunction function =
      load_cuda_function(cuda_device_source("turn.cu", definitions(size, move.extents.size(), numbers.planes)), "turn");
  const int64_t tiles = numbers.planes * ((numbers.rows + kTile - 1) / kTile) * ((numbers.columns + kTile - 1) / kTile);
  return [=](CudaStream& stream, const KernelOperands& operands) {
    ramet_device::TurnArguments a = numbers;
    a.from = input_of(move, size, operands), a.to = output_of(move, size, operands);
    stream.launch(function, {.x = std::min<int64_t>(tiles, 1 << 30)}, a);
  };
}

Run make_moves(const NodeSignature& node) {
  const int64_t size = size_in(node.outputs[0].dtype);
  std::vector<Run> runs;
  for (const ElementMove& each : ops::element_moves(node)) {
    if (each.elements() == 0) continue;
    const ElementMove move = each.merged();
    const int dim = turned_dim(move);
    runs.push_back(dim < 0 ? make_units(move, size) : make_turn(move, dim, size));
  }
  return [runs = std::move(runs)](CudaStream& stream, const KernelOperands& operands) {
    for (const Run& run : runs) run(stream, operands);
  };
}

std::string refuse_moves(const NodeSignature& node) {
  if (node.op->name == "shard" && node.attributes.has("deal")) return "it deals clusters";
  for (const ElementMove& each : ops::element_moves(node)) {
    if (each.elements() == 0) continue;
    const ElementMove move = each.merged();
    if (move.extents.size() > ramet_device::kMostDims) return "more dimensions than its code has";
    if (std::ranges::any_of(move.extents, [](int64_t extent) { return extent >= kNarrowUnits; }) &&
        move.extents.size() > 1)
      return "a dimension of 2^31 or more";
  }
  return "";
}

/// Fills output 0.
Run make_fill(const TensorType& type, double value) {
  char one[8] = {};
  store_element(one, type.dtype, 0, value);
  const int64_t size = size_in(type.dtype);
  for (int64_t at = size; at < 8; ++at) one[at] = one[at - size];
  ramet_device::FillArguments numbers{.elements = type.elements(), .pattern = 0, .to = nullptr};
  std::memcpy(&numbers.pattern, one, 8);
  if (std::ranges::all_of(one, [&](char byte) { return byte == one[0]; }))
    return [=, bytes = type.bytes()](CudaStream& stream, const KernelOperands& operands) {
      if (bytes > 0) stream.fill(operands.outputs[0], static_cast<uint8_t>(one[0]), bytes);
    };
  constexpr const char* kOfSize[] = {"", "U8", "U16", "", "U32", "", "", "", "U64"};
  const CudaFunction function =
      load_cuda_function(cuda_device_source("make.cu", {std::string("Element=") + kOfSize[size]}), "fill");
  return [=](CudaStream& stream, const KernelOperands& operands) {
    if (numbers.elements == 0) return;
    ramet_device::FillArguments a = numbers;
    a.to = operands.outputs[0];
    stream.launch(function, grid_for(a.elements * size / 16), a);
  };
}

Run make_pad(const NodeSignature& node) {
  return [fill = make_fill(node.outputs[0], node.attributes.get_float_or("value", 0)), moves = make_moves(node)](
             CudaStream& stream, const KernelOperands& operands) {
    fill(stream, operands);
    moves(stream, operands);
  };
}

Run make_full(const NodeSignature& node) { return make_fill(node.outputs[0], node.attributes.get_float("value")); }

Run make_reshape(const NodeSignature& node) {
  return [bytes = node.inputs[0].bytes()](CudaStream& stream, const KernelOperands& operands) {
    if (bytes > 0 && operands.inputs[0] != operands.outputs[0])
      stream.copy(operands.outputs[0], operands.inputs[0], bytes);
  };
}

Run make_iota(const NodeSignature& node) {
  const TensorType& type = node.outputs[0];
  ramet_device::IotaArguments numbers{.elements = type.elements(), .inner = 1, .extent = 1, .to = nullptr};
  const int axis = normalize_axis(node.attributes.get_int("axis"), type.shape.rank(), node.text());
  numbers.inner = type.shape.strides()[static_cast<size_t>(axis)], numbers.extent = type.shape.dim(axis);
  const CudaFunction function =
      load_cuda_function(cuda_device_source("make.cu", {"Element=" + storage_of(type.dtype)}), "iota");
  return [=](CudaStream& stream, const KernelOperands& operands) {
    if (numbers.elements == 0) return;
    ramet_device::IotaArguments a = numbers;
    a.to = operands.outputs[0];
    stream.launch(function, grid_for(a.elements), a);
  };
}

std::string refuse_iota(const NodeSignature& node) {
  const TensorType& type = node.outputs[0];
  if (!ops::Position(node).whole()) return "a part of the numbers is made on another device";
  const int axis = normalize_axis(node.attributes.get_int("axis"), type.shape.rank(), node.text());
  const bool fits =
      is_index(type.dtype) || (is_floating(type.dtype) && type.dtype != DType::kF64 && type.shape.dim(axis) <= 1 << 24);
  return fits ? "" : "numbers that it does not make";
}

void add(Backend& backend, const std::string& op, std::string (*refuse)(const NodeSignature&),
         Run (*make)(const NodeSignature&)) {
  add_card(backend, {.op = op,
                     .refuse = refuse,
                     .make = [make](const NodeSignature& node) { return std::make_unique<StreamKernel>(make(node)); },
                     .any_type = true});
}

std::string take(const NodeSignature&) { return ""; }

}  // namespace

void add_cuda_shape(Backend& backend) {
  for (const char* op : {"transpose", "broadcast_to", "slice", "shard", "reverse", "concat", "split"})
    add(backend, op, refuse_moves, make_moves);
  add(backend, "pad", refuse_moves, make_pad);
  add(backend, "full", take, make_full);
  add(backend, "iota", refuse_iota, make_iota);
  add(backend, "reshape", take, make_reshape);
}

}  // namespace ramet::kernel::cuda
