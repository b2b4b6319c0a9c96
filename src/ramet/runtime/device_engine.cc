#include "ramet/runtime/device_engine.h"

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/runtime/engine_state.h"

namespace ramet::runtime {
namespace {

/// What a device holds of a range of a logical tensor: runs, most of which follow one another on the device though not
/// in the tensor (columns of a matrix). Streaming memory, and memory that the host cannot address, is asked for whole
/// stretches of them.
struct Stretch {
  struct Run {
    int64_t place = 0, bytes = 0;  ///< in the range
  };
  int64_t local = 0, bytes = 0;
  std::vector<Run> runs;
};

void add_run(std::vector<Stretch>& stretches, int64_t local, int64_t place, int64_t bytes) {
  if (stretches.empty() || stretches.back().local + stretches.back().bytes != local)
    stretches.push_back({.local = local, .runs = {}});
  stretches.back().bytes += bytes;
  stretches.back().runs.push_back({place, bytes});
}

}  // namespace

/// Calls visit(local byte, place in the range, bytes) for each run of bytes [offset, offset + size) of a logical tensor
/// that this device holds.
template <typename Visit>
void EngineState::each_run(const StatePlace& state, int64_t offset, int64_t size, const Visit& visit) const {
  const auto element = static_cast<int64_t>(size_of(state.sharding.logical.dtype));
  const int64_t whole = state.sharding.logical.bytes();
  if (offset < 0 || offset > whole || size > whole - offset || offset % element != 0 || size % element != 0)
    throw Error({.what = "a range is not within the state, or not of whole elements",
                 .where = "'" + state.tensor.name + "'",
                 .found = "bytes " + std::to_string(offset) + " to " + std::to_string(offset + size),
                 .expected = "within " + std::to_string(whole)});
  for_each_run(state.sharding, position_, [&](const ShardRun& run) {
    const int64_t begin = std::max(run.logical * element, offset),
                  end = std::min((run.logical + run.count) * element, offset + size);
    if (begin < end) visit(run.local * element + begin - run.logical * element, begin - offset, end - begin);
  });
}

void EngineState::write_state(std::string_view name, int64_t offset, std::span<const std::byte> bytes) {
  const StatePlace& state = find_state(name);
  if (state.home == kNoBuffer && state.slots.empty()) return;  // derived where it is read
  const bool in_place = state.home == kNoBuffer && device_->addressable();
  queue_->wait();
  std::vector<Stretch> stretches;
  each_run(state, offset, static_cast<int64_t>(bytes.size()), [&](int64_t local, int64_t from, int64_t count) {
    if (in_place)
      std::memcpy(at(state.slots[0]) + local, bytes.data() + from, static_cast<size_t>(count));
    else
      add_run(stretches, local, from, count);
  });
  std::vector<std::byte> packed;
  for (const Stretch& stretch : stretches) {
    const std::byte* from = bytes.data() + stretch.runs[0].place;
    if (stretch.runs.size() > 1) {
      packed.clear();
      for (const Stretch::Run& run : stretch.runs)
        packed.insert(packed.end(), bytes.data() + run.place, bytes.data() + run.place + run.bytes);
      from = packed.data();
    }
    if (state.home == kNoBuffer)
      queue_->copy_in(at(state.slots[0]) + stretch.local, from, stretch.bytes);
    else
      store_->store(exe_.streaming[static_cast<size_t>(state.home)].offset + stretch.local, from, stretch.bytes);
  }
}

int64_t EngineState::read_state(std::string_view name, int64_t offset, std::span<std::byte> bytes) const {
  const StatePlace& state = find_state(name);
  if (state.home == kNoBuffer && state.slots.empty())
    throw Error({.what = "a derived state of a program with phases lives where it is read only",
                 .where = "'" + state.tensor.name + "'"});
  const bool in_place = state.home == kNoBuffer && device_->addressable();
  queue_->wait();
  std::vector<Stretch> stretches;
  int64_t given = 0;
  each_run(state, offset, static_cast<int64_t>(bytes.size()), [&](int64_t local, int64_t to, int64_t count) {
    if (in_place)
      std::memcpy(bytes.data() + to, at(state.slots[0]) + local, static_cast<size_t>(count));
    else
      add_run(stretches, local, to, count);
    given += count;
  });
  std::vector<std::byte> packed;
  for (const Stretch& stretch : stretches) {
    const bool apart = stretch.runs.size() > 1;
    if (apart) packed.resize(static_cast<size_t>(stretch.bytes));
    std::byte* to = apart ? packed.data() : bytes.data() + stretch.runs[0].place;
    if (state.home == kNoBuffer)
      queue_->copy_out(to, at(state.slots[0]) + stretch.local, stretch.bytes);
    else
      store_->load(exe_.streaming[static_cast<size_t>(state.home)].offset + stretch.local, to, stretch.bytes);
    for (const Stretch::Run& run : stretch.runs) {
      if (!apart) break;
      std::memcpy(bytes.data() + run.place, to, static_cast<size_t>(run.bytes));
      to += run.bytes;
    }
  }
  return given;
}

DeviceEngine::DeviceEngine(Executable executable, const Backend& backend, const DeviceOptions& options)
    : state_(std::make_unique<EngineState>(std::move(executable), backend, options)) {}
DeviceEngine::~DeviceEngine() = default;

const Executable& DeviceEngine::executable() const { return state_->exe_; }
int DeviceEngine::device() const { return state_->options_.device; }
const Mesh::Position& DeviceEngine::position() const { return state_->position_; }
int DeviceEngine::threads() const { return state_->device_->threads(); }
int64_t DeviceEngine::arena_bytes() const { return state_->memory_.bytes(); }

bool DeviceEngine::has_state(std::string_view name) const { return state_->exe_.find_state(name) >= 0; }
void DeviceEngine::write_state(std::string_view name, int64_t offset, std::span<const std::byte> bytes) {
  state_->write_state(name, offset, bytes);
}
int64_t DeviceEngine::read_state(std::string_view name, int64_t offset, std::span<std::byte> bytes) const {
  return state_->read_state(name, offset, bytes);
}

std::exception_ptr DeviceEngine::take_feed_error() { return state_->take_feed_error(); }

void DeviceEngine::prepare() { state_->prepare(); }
const StepResults& DeviceEngine::run_step(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars) {
  return state_->run_step(step, feed, scalars);
}
void DeviceEngine::run(std::string_view program, int64_t count, const Feed& feed, std::span<const ScalarValue> scalars,
                       const ResultSink& sink) {
  state_->run(program, count, feed, scalars, sink);
}
std::span<const TensorView> DeviceEngine::run(std::string_view program, const Feed& feed,
                                              std::span<const ScalarValue> scalars) {
  return state_->run(program, feed, scalars);
}
std::vector<int64_t> DeviceEngine::count_exponents(const NumericsTable& table, int64_t step, const Feed& feed,
                                                   std::span<const ScalarValue> scalars) {
  return state_->count_exponents(table, step, feed, scalars);
}

std::optional<NonFinite> DeviceEngine::find_first_nonfinite(int64_t step, const Feed& feed,
                                                            std::span<const ScalarValue> scalars) {
  return state_->find_first_nonfinite(step, feed, scalars);
}
void DeviceEngine::profile(bool on) { state_->profiling_ = on; }

}  // namespace ramet::runtime
