#include "ramet/machine/machine.h"

#include <algorithm>
#include <cctype>

#include "ramet/base/error.h"
#include "ramet/machine/efficiency.h"
#include "ramet/machine/tile_model.h"

namespace ramet::machine {
namespace {

/// The narrowest floating type that goes in: what a product's speed depends on.
DType compute_type(const NodeSignature& node) {
  DType narrow = DType::kF32;
  for (const TensorType& type : node.inputs)
    if (is_floating(type.dtype) && size_of(type.dtype) < size_of(narrow)) narrow = type.dtype;
  return narrow;
}

/// Of all matrix products of a node together; 1 of a node without any.
double share_of_products(const DeviceKind& device, const NodeSignature& node) {
  if (device.efficiency.empty() || !node.op->products) return 1;
  double operations = 0, ideal = 0;
  for (const MatrixProduct& product : node.op->products(node)) {
    const double size =
        2.0 * static_cast<double>(product.batch * product.m) * static_cast<double>(product.k * product.n);
    const std::string dtype(name_of(product.operands));
    operations += size;
    ideal += size / share_of_peak(device, "matmul", dtype, product_shape(product), size);
  }
  return ideal > 0 ? operations / ideal : 1;
}

/// Of bytes that come from the innermost cache which holds them all, or else from memory; rows that indices choose come
/// as slowly as the table says.
double traffic_seconds(const Machine& machine, const NodeSignature& node, const Cost& cost) {
  const auto bytes = static_cast<double>(cost.bytes_read + cost.bytes_written);
  double bandwidth = machine.bandwidth();
  const auto& caches = machine.device.caches;
  const auto fits = std::find_if(caches.begin(), caches.end(),
                                 [&](const CacheLevel& cache) { return static_cast<double>(cache.bytes) >= bytes; });
  if (fits != caches.end()) bandwidth = std::max(bandwidth, fits->bandwidth);
  const bool chooses = cost.flops == 0 && std::any_of(node.inputs.begin(), node.inputs.end(),
                                                      [](const TensorType& type) { return is_index(type.dtype); });
  return bytes / (bandwidth * (chooses ? share_of_peak(machine.device, "gather", "f32", "any", bytes) : 1));
}

}  // namespace

const char* name_of(DeviceModel model) { return model == DeviceModel::kCores ? "cores" : "tiles"; }

const char* name_of(MemoryRole role) {
  switch (role) {
    case MemoryRole::kDevice: return "device";
    case MemoryRole::kStreaming: return "streaming";
    case MemoryRole::kDisk: return "disk";
  }
  internal_error("name_of", "no such memory");
}

const char* name_of(Topology topology) {
  switch (topology) {
    case Topology::kLadder: return "ladder";
    case Topology::kRing: return "ring";
    case Topology::kTorus: return "torus";
    case Topology::kFatTree: return "fat-tree";
    case Topology::kAllToAll: return "all-to-all";
    case Topology::kHostGateway: return "host-gateway";
  }
  internal_error("name_of", "no such topology");
}

double DeviceKind::peak(DType dtype) const {
  auto rate = operations_per_cycle.find(std::string(ramet::name_of(dtype)));
  if (rate == operations_per_cycle.end()) rate = operations_per_cycle.find("f32");
  return rate == operations_per_cycle.end() ? 0 : rate->second * clock * units;
}

const MemoryKind* Machine::memory(MemoryRole role) const {
  const auto found =
      std::find_if(memories.begin(), memories.end(), [&](const MemoryKind& memory) { return memory.role == role; });
  return found == memories.end() ? nullptr : &*found;
}

double Machine::bandwidth() const {
  const MemoryKind* own = memory(MemoryRole::kDevice);
  return own ? std::max(own->total / own->devices, 1.0) : 1;
}

std::string call_key(const NodeSignature& node) {
  std::string key = node.op->name;
  for (const auto* types : {&node.inputs, &node.outputs})
    for (const TensorType& type : *types) key += " " + type.text();
  return key;
}

std::string timing_key(const NodeSignature& node, const std::string& kernel) {
  std::string key = kernel + " " + node.op->name + "(";
  for (const TensorType& type : node.inputs) key += type.text() + ",";
  key += ")->";
  for (const TensorType& type : node.outputs) key += type.text() + ",";
  for (const auto& [name, attribute] : node.attributes) {
    std::string text = text_of(attribute);
    if (std::holds_alternative<std::string>(attribute))
      std::erase_if(text, [](unsigned char c) { return std::isdigit(c); });
    key += " " + name + "=" + text;
  }
  return key;
}

double call_seconds(const Machine& machine, const NodeSignature& node, const std::string& kernel, const Cost& cost) {
  const DeviceKind& device = machine.device;
  if (!machine.measured_calls.empty())
    if (const auto measured = machine.measured_calls.find(timing_key(node, kernel));
        measured != machine.measured_calls.end())
      return measured->second + device.overhead;
  if (!node.op->cost)
    throw Error({.what = "nobody knows what this op costs",
                 .where = node.text(),
                 .expected = "a cost in the table of ops, or a measured time in the machine's file"});
  if (device.model == DeviceModel::kTiles)
    return tile_cycles(figures_of_kernel(device.tiles, kernel), node, cost).total() / device.clock + device.overhead;
  const double compute = cost.flops / std::max(share_of_products(device, node) * device.peak(compute_type(node)), 1.0);
  return std::max(compute, traffic_seconds(machine, node, cost)) + device.overhead;
}

}  // namespace ramet::machine
