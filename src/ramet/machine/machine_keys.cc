#include "ramet/machine/machine_keys.h"

namespace ramet::machine {
namespace {

constexpr double kMostBytes = 1e18, kMostRate = 1e18, kMostSeconds = 10;

template <typename Struct>
void help_on(std::string& text, const char* title) {
  text += std::string(title) + "\n";
  for (const auto& key : figure_keys<Struct>())
    text += "  " + std::string(key.name) + (key.required ? "*" : "") + ": " + key.doc + "\n";
}

}  // namespace

template <>
const std::vector<FigureKey<Machine>>& figure_keys() {
  static const std::vector<FigureKey<Machine>> keys = {
      {"name", &Machine::name, 0, 0, true, "what reports call the machine"},
      {"description", &Machine::description, 0, 0, false, "one line"},
      {"devices", &Machine::devices, 1, 1 << 20, true, "devices, all alike"},
      {"processors", &Machine::processors, 0, 1 << 20, false,
       "cores that all devices share, where devices are threads of one machine; 0: each has its own"},
      {"watts", &Machine::watts, 0, 1e6, false,
       "power of one device at work, with its share of all that stands around it"},
      {"kernel_class", &Machine::kernel_class, 0, 0, false, "class of the kernels that its rates were measured with"},
  };
  return keys;
}

template <>
const std::vector<FigureKey<DeviceKind>>& figure_keys() {
  static const std::vector<FigureKey<DeviceKind>> keys = {
      {"name", &DeviceKind::name, 0, 0, false, "name of the device"},
      {"units", &DeviceKind::units, 1, 1 << 20, true, "cores, streaming multiprocessors or tiles of a device"},
      {"clock", &DeviceKind::clock, 1e6, 1e11, true, "cycles a second"},
      {"vector_bits", &DeviceKind::vector_bits, 0, 1 << 16, false, "width of a unit's vector instructions"},
      {"overhead", &DeviceKind::overhead, 0, kMostSeconds, false,
       "seconds from one instruction of a program to the next"},
      {"jitter", &DeviceKind::jitter, 0, 1, false, "standard deviation, in seconds, of what takes one second"},
  };
  return keys;
}

template <>
const std::vector<FigureKey<TileFigures>>& figure_keys() {
  using F = TileFigures;
  constexpr double kMost = 1e9;  // cycles, bytes a cycle, multiply-adds a cycle
  static const std::vector<FigureKey<F>> keys = {
      {"memory", &F::memory, 1024, 1e12, true, "bytes of one tile"},
      {"workers", &F::workers, 1, 1024, true, "hardware threads of a tile, which have its cycles in turn"},
      {"half_macs", &F::half_macs, 1e-3, kMost, true, "multiply-adds a cycle and tile on f16, with sums of f16"},
      {"half_float_macs", &F::half_float_macs, 1e-3, kMost, true, "the same with sums of f32"},
      {"float_macs", &F::float_macs, 1e-3, kMost, true, "the same on f32"},
      {"half_sum_bits", &F::half_sum_bits, 16, 32, false, "bits of the sums of products of f16: 16 or 32"},
      {"block_outputs", &F::block_outputs, 1, 1 << 20, false, "columns of a block of weights in the units"},
      {"block_bytes", &F::block_bytes, 1, 1 << 20, false, "bytes of one column of a block of weights"},
      {"coefficient_bytes", &F::coefficient_bytes, 1e-3, kMost, false, "bytes of weights loaded a cycle"},
      {"product_cycles", &F::product_cycles, 0, kMost, false, "cycles before a product's first block of weights"},
      {"input_cycles", &F::input_cycles, 0, kMost, false, "cycles for each group of inputs of a product"},
      {"output_cycles", &F::output_cycles, 0, kMost, false, "cycles for each group of outputs of a product"},
      {"block_cycles", &F::block_cycles, 0, kMost, false, "cycles for each block of weights, beside its loading"},
      {"worker_cycles", &F::worker_cycles, 0, kMost, false, "cycles of every worker before its first row of a block"},
      {"least_rows", &F::least_rows, 0, kMost, false, "rows for which a worker takes at least time"},
      {"float_sum_cycles", &F::float_sum_cycles, 0, kMost, false, "cycles a row more where sums are f32"},
      {"temporary_share", &F::temporary_share, 1e-3, 1, false, "share of a tile's memory that one product may fill"},
      {"data_path_bytes", &F::data_path_bytes, 1e-3, kMost, false, "bytes that a vector instruction loads or stores"},
      {"copy_bytes", &F::copy_bytes, 1e-3, kMost, false, "bytes a cycle of arranging what was exchanged"},
      {"element_efficiency", &F::element_efficiency, 1e-3, 1, false,
       "share of the rate of vector instructions that loops over elements reach"},
      {"vertex_cycles", &F::vertex_cycles, 0, kMost, false, "cycles to start all workers on a loop, and to end it"},
      {"exchange_bytes", &F::exchange_bytes, 1e-3, kMost, true, "bytes a cycle that a tile receives"},
      {"exchange_pair", &F::exchange_pair, 1, 64, false,
       "neighbours that receive the same bytes at a multiple of that rate"},
      {"phase_cycles", &F::phase_cycles, 0, kMost, false, "cycles of an exchange and the synchronisation before it"},
      {"sync_cycles", &F::sync_cycles, 0, kMost, false, "cycles between two computations without an exchange"},
      {"runtime_bytes", &F::runtime_bytes, 0, 1e12, false, "bytes of a tile for stacks, boot and the host's exchange"},
      {"vertex_bytes", &F::vertex_bytes, 0, 1e12, false, "bytes of a tile for the code of one kind of vertex"},
      {"call_bytes", &F::call_bytes, 0, 1e12, false,
       "bytes of a tile for the control code and vertex state of one instruction"},
      {"message_bytes", &F::message_bytes, 0, 1e12, false,
       "bytes of a tile of exchange code for what comes from one other tile"},
  };
  return keys;
}

template <>
const std::vector<FigureKey<CacheLevel>>& figure_keys() {
  static const std::vector<FigureKey<CacheLevel>> keys = {
      {"name", &CacheLevel::name, 0, 0, true, "its name, as L1"},
      {"bytes", &CacheLevel::bytes, 1, kMostBytes, true, "bytes that all units of a device hold in it"},
      {"bandwidth", &CacheLevel::bandwidth, 1, kMostRate, true,
       "bytes a second of all units, read and written together"},
  };
  return keys;
}

template <>
const std::vector<FigureKey<Efficiency>>& figure_keys() {
  static const std::vector<FigureKey<Efficiency>> keys = {
      {"op", &Efficiency::op, 0, 0, true, "class of work: matmul, or gather (share of the memory's bandwidth)"},
      {"dtype", &Efficiency::dtype, 0, 0, false, "that it computes in (default: any)"},
      {"shape", &Efficiency::shape, 0, 0, false, "class of a product's shape (default: any)"},
      {"size", &Efficiency::size, 1, 1e30, true,
       "floating-point operations of one call, bytes of a gather; between sizes the share is interpolated over their "
       "logarithm"},
      {"share", &Efficiency::share, 1e-9, 1, true, "share of the peak that it reaches"},
  };
  return keys;
}

template <>
const std::vector<FigureKey<MemoryKind>>& figure_keys() {
  static const std::vector<FigureKey<MemoryKind>> keys = {
      {"bytes", &MemoryKind::bytes, 1, kMostBytes, true, "size of one such memory"},
      {"devices", &MemoryKind::devices, 1, 1 << 20, false, "devices that share it (default: 1)"},
      {"read", &MemoryKind::read, 1, kMostRate, true, "bytes a second that one device alone reads from it"},
      {"write", &MemoryKind::write, 1, kMostRate, true, "bytes a second that one device alone writes to it"},
      {"total", &MemoryKind::total, 1, kMostRate, false,
       "bytes a second of all devices that share it, both ways together (default: what they read and write alone)"},
      {"latency", &MemoryKind::latency, 0, kMostSeconds, false, "seconds before the first byte"},
  };
  return keys;
}

template <>
const std::vector<FigureKey<LinkLevel>>& figure_keys() {
  static const std::vector<FigureKey<LinkLevel>> keys = {
      {"name", &LinkLevel::name, 0, 0, true, "what reports call these links"},
      {"group", &LinkLevel::group, 2, 1 << 20, true, "units of the level before (devices, at first) that they join"},
      {"links", &LinkLevel::links, 1, 1 << 20, true,
       "links of a unit to each neighbour (ladder, ring, torus, all-to-all) or to the switch (fat-tree), or of the "
       "gateway (host-gateway)"},
      {"bandwidth", &LinkLevel::bandwidth, 1, kMostRate, true, "bytes a second of one link, each way"},
      {"latency", &LinkLevel::latency, 0, kMostSeconds, true, "seconds of a message over one link"},
      {"efficiency", &LinkLevel::efficiency, 1e-3, 1, false, "share of the bandwidth that messages get (default: 1)"},
      {"barrier", &LinkLevel::barrier, 0, kMostSeconds, false, "seconds in which all units of a group meet"},
  };
  return keys;
}

std::string machine_help() {
  std::string text;
  help_on<Machine>(text,
                   "at the top; and base: a preset, or a list of them, whose figures stand where the file has none");
  help_on<DeviceKind>(text,
                      "[device]; beside these model*: cores or tiles, and operations_per_cycle*: of a unit by dtype");
  help_on<CacheLevel>(text, "[[device.caches]], innermost first; of cores");
  help_on<Efficiency>(text, "[[device.efficiency]]; of cores");
  help_on<TileFigures>(text, "[device.tiles]; of tiles");
  help_on<MemoryKind>(text, "[memory.device]*, [memory.streaming], [memory.disk]");
  help_on<LinkLevel>(text,
                     "[[links]], innermost first; beside these topology*: ladder, ring, torus, fat-tree, all-to-all or "
                     "host-gateway");
  return text;
}

}  // namespace ramet::machine
