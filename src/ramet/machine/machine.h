#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ramet/ir/op.h"
#include "ramet/machine/tile_figures.h"

namespace ramet::machine {

/// How a device computes, and so which model gives a call its time.
enum class DeviceModel : uint8_t {
  kCores,  ///< cores that share caches and memory: CPUs, GPUs
  kTiles   ///< tiles with a memory of their own that exchange in supersteps: IPUs
};

/// A cache of a device of cores, all its units together.
struct CacheLevel {
  std::string name;      ///< "L1"
  int64_t bytes = 0;     ///< what all units together hold in it
  double bandwidth = 0;  ///< bytes a second, read and written together
};

/// One point of a table: the share of the peak that a class of work reaches at a size.
struct Efficiency {
  std::string op;     ///< class of work: "matmul", "attention"; see efficiency_classes()
  std::string dtype;  ///< that it computes in; "any"
  std::string shape;  ///< class of a product's shape (product_shapes()), or "any"
  double size = 0;   ///< floating-point operations of one call; between points the share is interpolated over log(size)
  double share = 1;  ///< of DeviceKind::peak
};

/// One device of a machine.
struct DeviceKind {
  std::string name;  ///< "GC200"
  DeviceModel model = DeviceModel::kCores;
  int units = 1;     ///< cores, streaming multiprocessors, tiles
  double clock = 0;  ///< Hz
  /// Floating-point operations a cycle of one unit in matrix products, by the name of the dtype; a multiply-add is two.
  std::map<std::string, double> operations_per_cycle;
  int vector_bits = 0;             ///< of one unit's vector instructions
  double overhead = 0;             ///< seconds from one instruction of a program to the next
  double jitter = 0;               ///< of s seconds of work, jitter * sqrt(s) is the standard deviation, in seconds
  std::vector<CacheLevel> caches;  ///< innermost first
  std::vector<Efficiency> efficiency;
  TileFigures tiles;  ///< of devices of tiles

  /// Operations a second of all units; a dtype that the device has no rate for is computed in f32.
  double peak(DType dtype) const;
};

/// The use of a memory.
enum class MemoryRole : uint8_t {
  kDevice,     ///< holds the tensors that a device computes with
  kStreaming,  ///< beside devices: host memory, DRAM of a gateway
  kDisk        ///< files
};

/// A memory. Sizes are of one such memory, which `devices` devices share.
struct MemoryKind {
  MemoryRole role = MemoryRole::kDevice;
  int64_t bytes = 0;
  double read = 0, write = 0;  ///< bytes a second each way, of one device alone
  double total = 0;            ///< bytes a second of all that share it, both ways together
  double latency = 0;          ///< seconds before the first byte
  int devices = 1;             ///< that share it
};

/// How the units of one level of links are joined.
enum class Topology : uint8_t {
  kLadder,      ///< a line: every unit has neighbours before and behind, but for the ends
  kRing,        ///< the line, closed
  kTorus,       ///< a grid as square as may be, closed in both directions
  kFatTree,     ///< every unit at a switch that never blocks
  kAllToAll,    ///< links between every two units
  kHostGateway  ///< one gateway, whose links all units share: host memory, a host's network card
};

/// Links that join units of the level below (devices, at the innermost level) to one unit of the next.
struct LinkLevel {
  std::string name;  ///< "IPU-Link between pairs"
  Topology topology = Topology::kAllToAll;
  int group = 2;  ///< units of the level below that it joins
  int links = 1;  ///< of a unit to each neighbour (ladder, ring, torus, all-to-all), to the switch (fat tree), or
                  ///< of the gateway
  double bandwidth = 0;   ///< bytes a second of one link, each way
  double latency = 0;     ///< seconds of one message over one link
  double efficiency = 1;  ///< share of the bandwidth that messages get
  double barrier = 0;     ///< seconds in which all units of a group meet; 0: as messages take
};

/// Where a figure comes from, and how far its measurements lay apart.
struct FigureNote {
  std::string source;
  double spread = 0;  ///< half the distance of the quartiles, as a share of the figure; 0: not measured
};

/// What there is to train on, as far as time and memory are concerned: equal devices, their memories and links. Rates
/// of the machine at hand are those that this project's kernels reach.
struct Machine {
  std::string name;         ///< "ipu-pod16", "AMD EPYC 9R45"
  std::string description;  ///< one line
  int devices = 1;
  int processors = 0;  ///< cores that all devices share, where they are threads of one machine; 0: each has its own
  double watts = 0;    ///< of one device at work, with its share of all that stands around it; 0: not known
  std::string kernel_class;  ///< as in Executable; "" of machines whose kernels are not here
  DeviceKind device;
  std::vector<MemoryKind> memories;  ///< device memory first
  std::vector<LinkLevel> links;      ///< innermost first; their groups multiply to `devices`
  /// By the figure's key: "device.clock", "links.0.bandwidth"; that of a table ("device") is for all its figures.
  std::map<std::string, FigureNote> notes;
  /// Seconds of calls that were measured here, by timing_key.
  std::map<std::string, double> measured_calls;

  /// Null where the machine has no such memory.
  const MemoryKind* memory(MemoryRole role) const;
  /// Bytes a second of device memory, read and written together, while all that share it are at work; 1 where it is not
  /// known.
  double bandwidth() const;
};

/// The words for them in machine files.
const char* name_of(DeviceModel model);
const char* name_of(MemoryRole role);
const char* name_of(Topology topology);

/// What calls must share to take the same time: kernel, op, types, attributes. Digits of text attributes are left out,
/// because names that differ by a layer's number cost the same.
std::string timing_key(const NodeSignature& node, const std::string& kernel);

/// What calls of one piece of code share: op and types.
std::string call_key(const NodeSignature& node);

/// Seconds that a call takes: as measured, or else the longer of its operations and its traffic at the machine's rates,
/// plus the overhead.
double call_seconds(const Machine& machine, const NodeSignature& node, const std::string& kernel, const Cost& cost);

}  // namespace ramet::machine
