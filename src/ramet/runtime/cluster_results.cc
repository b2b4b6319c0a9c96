#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "ramet/base/error.h"
#include "ramet/runtime/cluster_state.h"

namespace ramet::runtime {
namespace {

// Numbers before the results: index of the slot that was not finite (or -1), whether states changed, seconds of the
// step, seconds of waiting.
constexpr size_t kHeader = 4;
constexpr double kNothing = -1;

double number_in(std::span<const TensorView> views, const std::string& name) {
  for (const TensorView& view : views)
    if (view.name == name) return view.get();
  return std::numeric_limits<double>::quiet_NaN();
}

double slot_of(const std::vector<ResultSlot>& slots, const std::string& name) {
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i].name == name) return static_cast<double>(i);
  return kNothing;
}

void put(NamedNumbers& numbers, const std::string& name, double value) {
  // A result that several stages make is the same on all.
  if (std::none_of(numbers.begin(), numbers.end(), [&](const auto& each) { return each.first == name; }))
    numbers.emplace_back(name, value);
}

}  // namespace

std::vector<ResultSlot> result_slots(const Executable& exe) {
  std::vector<ResultSlot> slots;
  for (const ProgramStep& step : exe.train().steps) {
    if (!exe.gives_results(step)) continue;
    for (const Binding& result : exe.segments[static_cast<size_t>(step.subject)].results)
      if (result.type.shape.rank() == 0) slots.push_back({result.name, step.micro});
  }
  std::vector<ResultSlot> once;
  for (ResultSlot& slot : slots)
    if (std::find(once.begin(), once.end(), slot) == once.end()) once.push_back(std::move(slot));
  return once;
}

void ClusterState::exchange(std::vector<std::vector<double>>& numbers) {
  if (ranks == 1) return;
  size_t most = 0;
  for (int device = 0; device < mesh.devices(); ++device) {
    const size_t stage = static_cast<size_t>(mesh.position(device).stage);
    most = std::max(most, kHeader + train_slots[stage].size());
  }
  const size_t count = static_cast<size_t>(mesh.devices());
  std::vector<std::vector<int64_t>> all(devices.size());
  on_devices([&](ClusterDevice& device) {
    std::vector<int64_t> mine(most);
    const auto& from = numbers[static_cast<size_t>(device.number)];
    for (size_t i = 0; i < from.size(); ++i) mine[i] = std::bit_cast<int64_t>(from[i]);
    auto& into = all[static_cast<size_t>(&device - devices.data())];
    into.resize(most * count);
    device.all->all_gather(mine.data(), into.data(), static_cast<int64_t>(into.size()), DType::kI64);
  });
  for (size_t device = 0; device < count; ++device) {
    numbers[device].resize(most);
    for (size_t i = 0; i < most; ++i) numbers[device][i] = std::bit_cast<double>(all[0][device * most + i]);
  }
}

void ClusterState::gather_step() {
  std::vector<std::vector<double>> numbers(static_cast<size_t>(mesh.devices()));
  for (const ClusterDevice& device : devices) {
    const auto& slots = train_slots[static_cast<size_t>(device.position.stage)];
    const StepResults& given = *device.results;
    auto& mine = numbers[static_cast<size_t>(device.number)];
    mine = {given.not_finite.empty() ? kNothing : slot_of(slots, given.not_finite), given.states_changed ? 1.0 : 0.0,
            given.seconds, given.waiting_seconds};
    for (const ResultSlot& slot : slots)
      mine.push_back(number_in(slot.micro < 0 ? given.update() : given.micro(slot.micro), slot.name));
  }
  exchange(numbers);

  const int64_t per_replica = stages[0].micro_batches();
  results = {};
  results.micro.resize(static_cast<size_t>(per_replica * mesh.r));
  double longest = 0, busy = 0;
  for (const auto& given : numbers) longest = std::max(longest, given[2]), busy += given[2] - given[3];
  if (longest > 0) results.waiting = 1 - busy / (longest * mesh.devices());
  for (int number = 0; number < mesh.devices(); ++number) {
    const Mesh::Position position = mesh.position(number);
    const auto& slots = train_slots[static_cast<size_t>(position.stage)];
    const auto& given = numbers[static_cast<size_t>(number)];
    if (given[0] != kNothing && results.not_finite.empty())
      results.not_finite = slots[static_cast<size_t>(given[0])].name;
    results.states_changed = results.states_changed || given[1] != 0;
    // Tensor shards all have the same.
    if (position.tensor1 > 0 || position.tensor2 > 0) continue;
    for (size_t i = 0; i < slots.size(); ++i) {
      const double value = given[kHeader + i];
      if (slots[i].micro < 0)
        put(results.update, slots[i].name, value);
      else
        put(results.micro[static_cast<size_t>(position.replica * per_replica + slots[i].micro)], slots[i].name, value);
    }
  }
}

/// All devices share the time of their finding; the device with the first one sends it to all.
std::optional<std::string> ClusterState::first_nonfinite() {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> when(static_cast<size_t>(mesh.devices()));
  for (const ClusterDevice& device : devices)
    when[static_cast<size_t>(device.number)] = {device.nonfinite ? device.nonfinite->superstep : kNever};
  exchange(when);
  const auto first =
      std::min_element(when.begin(), when.end(), [](const auto& a, const auto& b) { return a[0] < b[0]; });
  if ((*first)[0] == kNever) return std::nullopt;
  const int number = static_cast<int>(first - when.begin());
  std::string text;
  if (const ClusterDevice* device = local(number)) text = device->nonfinite->text();
  text = share_text(number, std::move(text));
  if (alone()) return text;
  const Mesh::Position position = mesh.position(number);
  return fmt::format("on device {} (stage {}, replica {}): {}", number, position.stage, position.replica, text);
}

/// A text of one device for all ranks.
std::string ClusterState::share_text(int from, std::string text) {
  if (ranks == 1) return text;
  constexpr size_t kMost = 4096;
  std::vector<std::string> copies(devices.size(), text);
  on_devices([&](ClusterDevice& device) {
    std::string& mine = copies[static_cast<size_t>(&device - devices.data())];
    mine.resize(kMost, '\0');
    device.all->broadcast(mine.data(), kMost, DType::kU8, from);
  });
  return copies[0].c_str();
}

}  // namespace ramet::runtime
