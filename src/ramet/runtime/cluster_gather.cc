#include "ramet/runtime/cluster_gather.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "ramet/base/error.h"

namespace ramet::runtime {

ResultGather::ResultGather(ClusterState& cluster, int32_t program, int64_t count, const Keep& keep,
                           std::function<Giver(int64_t micro)> giver, bool everywhere)
    : cluster_(cluster), count_(count), giver_(std::move(giver)), everywhere_(everywhere) {
  find_items(program, keep);
  find_shares();
  results_.resize(static_cast<size_t>(count));
  if (!keeps_results()) return;
  for (ResultTensors& tensors : results_)
    for (const Item& item : items_) {
      const TensorType& type = item.sharding.logical;
      tensors.push_back({item.name, type, std::vector<std::byte>(static_cast<size_t>(type.bytes()))});
    }
}

/// A result that several stages make is the same on all: the first gives it.
void ResultGather::find_items(int32_t program, const Keep& keep) {
  for (const Executable& exe : cluster_.stages)
    for (const Segment& segment : exe.segments)
      for (const Binding& result : segment.results)
        if (segment.program == program && keep(segment, result) && item_of_.emplace(result.name, items_.size()).second)
          items_.push_back({result.name, exe.stage, result.sharding});
}

/// Of the shards of a replica the first that has a part gives it.
void ResultGather::find_shares() {
  const Mesh& mesh = cluster_.mesh;
  shares_.resize(static_cast<size_t>(mesh.devices()));
  std::set<std::vector<int64_t>> given;  // item, replica and parts
  for (int device = 0; device < mesh.devices(); ++device) {
    const Mesh::Position position = mesh.position(device);
    Share& share = shares_[static_cast<size_t>(device)];
    for (size_t item = 0; item < items_.size(); ++item) {
      if (items_[item].stage != position.stage) continue;
      std::vector<int64_t> part = {static_cast<int64_t>(item), position.replica};
      for (const Cut& cut : items_[item].sharding.cuts) part.push_back(part_of(cut, position));
      if (!given.insert(part).second) continue;
      share.place[item] = share.bytes;
      share.bytes += items_[item].sharding.local().bytes();
    }
    for (int64_t micro = 0; micro < count_; ++micro) share.micro_batches += giver_(micro).replica == position.replica;
    if (cluster_.rank != 0 && cluster_.local(device))
      share.packed.resize(static_cast<size_t>(share.bytes * share.micro_batches));
  }
}

std::vector<std::string> ResultGather::names() const {
  std::vector<std::string> names;
  for (const Item& item : items_) names.push_back(item.name);
  return names;
}

void ResultGather::put(const Item& item, size_t index, int64_t micro, const Mesh::Position& position,
                       const std::byte* data) {
  std::byte* to = results_[static_cast<size_t>(micro)][index].bytes.data();
  const auto size = static_cast<int64_t>(size_of(item.sharding.logical.dtype));
  for_each_run(item.sharding, position, [&](const ShardRun& run) {
    std::memcpy(to + run.logical * size, data + run.local * size, static_cast<size_t>(run.count * size));
  });
}

void ResultGather::take(const ClusterDevice& device, int64_t micro, std::string_view name, const std::byte* data) {
  const auto item = item_of_.find(name);
  const Giver giver = giver_(micro);
  if (item == item_of_.end() || giver.replica != device.position.replica) return;
  Share& share = shares_[static_cast<size_t>(device.number)];
  const auto place = share.place.find(item->second);
  if (place == share.place.end()) return;
  const Item& known = items_[item->second];
  if (cluster_.rank == 0) return put(known, item->second, micro, device.position, data);
  std::memcpy(share.packed.data() + giver.number * share.bytes + place->second, data,
              static_cast<size_t>(known.sharding.local().bytes()));
}

void ResultGather::unpack(int device, const std::vector<std::byte>& bytes) {
  const Mesh::Position position = cluster_.mesh.position(device);
  const Share& share = shares_[static_cast<size_t>(device)];
  for (int64_t micro = 0; micro < count_; ++micro) {
    const Giver giver = giver_(micro);
    if (giver.replica != position.replica) continue;
    for (const auto& [item, place] : share.place)
      put(items_[item], item, micro, position, bytes.data() + giver.number * share.bytes + place);
  }
}

std::vector<ResultTensors> ResultGather::finish() {
  if (cluster_.ranks > 1) {
    cluster_.on_devices([&](ClusterDevice& device) {
      if (cluster_.rank != 0) {
        const std::vector<std::byte>& packed = shares_[static_cast<size_t>(device.number)].packed;
        if (!packed.empty()) device.transport->send(0, kHostTag, packed.data(), packed.size());
        return;
      }
      if (device.number != 0) return;
      for (int other = cluster_.per_rank; other < cluster_.mesh.devices(); ++other) {
        const Share& share = shares_[static_cast<size_t>(other)];
        std::vector<std::byte> bytes(static_cast<size_t>(share.bytes * share.micro_batches));
        if (bytes.empty()) continue;
        device.transport->receive(other, kHostTag, bytes.data(), bytes.size());
        unpack(other, bytes);
      }
    });
    if (everywhere_) send_to_all();
  }
  return std::move(results_);
}

void ResultGather::send_to_all() {
  size_t size = 0;
  for (const ResultTensors& tensors : results_)
    for (const ResultTensor& tensor : tensors) size += tensor.bytes.size();
  std::vector<std::vector<std::byte>> copies(cluster_.devices.size());
  cluster_.on_devices([&](ClusterDevice& device) {
    auto& copy = copies[static_cast<size_t>(&device - cluster_.devices.data())];
    copy.resize(size);
    if (device.number == 0) {
      std::byte* to = copy.data();
      for (const ResultTensors& tensors : results_)
        for (const ResultTensor& tensor : tensors) to = std::copy(tensor.bytes.begin(), tensor.bytes.end(), to);
    }
    device.all->broadcast(copy.data(), static_cast<int64_t>(size), DType::kU8, 0);
  });
  const std::byte* from = copies[0].data();
  for (ResultTensors& tensors : results_)
    for (ResultTensor& tensor : tensors) {
      std::copy(from, from + tensor.bytes.size(), tensor.bytes.begin());
      from += tensor.bytes.size();
    }
}

namespace {

void check_names(const std::vector<std::string>& wanted, const std::vector<std::string>& known,
                 const std::string& where) {
  for (const std::string& name : wanted) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string near = nearest_name(name, known);
    throw Error({.what = "there is no result of this name",
                 .where = where,
                 .found = "'" + name + "'",
                 .remedy = near.empty() ? "" : "Did you mean '" + near + "'?"});
  }
}

bool holds_name(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::vector<ResultTensors> ClusterState::run(std::string_view name, int64_t count, const ClusterFeed& feed,
                                             std::span<const ScalarValue> scalars, const Wanted& wanted) {
  // Before any device begins, so that a refusal here ends no device's work.
  const int32_t program = stages[0].program_on_request(name, count);
  const auto keep = [&](const Segment&, const Binding& result) {
    return wanted.names.empty() || holds_name(wanted.names, result.name);
  };
  const int64_t replicas = stages[0].programs[static_cast<size_t>(program)].writes_states ? 1 : mesh.r;
  const auto giver = [replicas](int64_t micro) {
    return ResultGather::Giver{static_cast<int>(micro % replicas), micro / replicas};
  };
  ResultGather gather(*this, program, count, keep, giver, wanted.everywhere);
  check_names(wanted.names, gather.names(), "program '" + std::string(name) + "'");
  check_scalars_of(program, scalars);
  on_fed_devices([&](ClusterDevice& device) {
    const Executable& exe = stage_of(device.number);
    const Feed of_device = [&exe, &feed](int64_t, int64_t micro, FeedSink& sink) { feed(micro, exe, sink); };
    device.engine->run(name, count, of_device, scalars,
                       [&](int64_t micro, const Binding& result, const std::byte* data) {
                         gather.take(device, micro, result.name, data);
                       });
  });
  return gather.finish();
}

void ClusterState::check_scalars_of(int32_t program, std::span<const ScalarValue> scalars) const {
  for (const Executable& exe : stages)
    for (const Segment& segment : exe.segments)
      for (const Binding& binding : segment.scalars)
        if (segment.program == program && binding.name != kCounterInput &&
            std::none_of(scalars.begin(), scalars.end(),
                         [&](const ScalarValue& each) { return each.name == binding.name; }))
          throw Error({.what = "a scalar input is missing",
                       .where = "segment '" + segment.name + "'",
                       .expected = "'" + binding.name + "'"});
}

void ClusterState::check_wanted(const Wanted& wanted) const {
  if (wanted.names.empty()) return;
  std::vector<std::string> known;
  for (const Executable& exe : stages)
    for (const Segment& segment : exe.segments)
      for (const Binding& result : segment.results)
        if (exe.runs_in_step(segment.program)) known.push_back(result.name);
  check_names(wanted.names, known, "training step");
}

void ClusterState::gather_tensors(int64_t step, const Wanted& wanted) {
  if (!results.not_finite.empty()) return;
  const auto gather = [&](int32_t program, int64_t count, const ResultGather::Keep& keep,
                          const std::function<ResultGather::Giver(int64_t)>& giver, const auto& views_of) {
    ResultGather gather_all(*this, program, count, keep, giver, wanted.everywhere);
    if (gather_all.names().empty()) return std::vector<ResultTensors>();
    for (const ClusterDevice& device : devices)
      for (int64_t micro = 0; micro < count; ++micro)
        for (const TensorView& view : views_of(device, micro)) gather_all.take(device, micro, view.name, view.data);
    return gather_all.finish();
  };
  const auto first = [](int64_t) { return ResultGather::Giver{}; };
  if (!wanted.names.empty()) {
    const int64_t own = stages[0].micro_batches();
    const auto of = [&](bool update) {
      return [&wanted, update](const Segment& segment, const Binding& result) {
        return (segment.kind == PieceKind::kUpdate) == update && holds_name(wanted.names, result.name);
      };
    };
    results.micro_tensors = gather(
        kTrain, own * mesh.r, of(false),
        [own](int64_t micro) { return ResultGather::Giver{static_cast<int>(micro / own), micro % own}; },
        [&](const ClusterDevice& device, int64_t micro) {
          return micro / own == device.position.replica ? device.results->micro(micro % own)
                                                        : std::span<const TensorView>();
        });
    auto update = gather(kTrain, 1, of(true), first,
                         [](const ClusterDevice& device, int64_t) { return device.results->update(); });
    if (!update.empty()) results.update_tensors = std::move(update[0]);
  }
  for (int32_t program = kFirstProgram; program < static_cast<int32_t>(stages[0].programs.size()); ++program) {
    const Program& due = stages[0].programs[static_cast<size_t>(program)];
    if (!stages[0].runs_in_step(program)) continue;
    const bool ran = (step + 1) % due.when.every == 0;
    if (!ran) continue;
    auto tensors = gather(
        program, 1,
        [&](const Segment&, const Binding& result) {
          return result.type.shape.rank() == 0 || holds_name(wanted.names, result.name);
        },
        first, [&](const ClusterDevice& device, int64_t) { return device.results->program(due.name); });
    results.programs.emplace_back(due.name, tensors.empty() ? ResultTensors() : std::move(tensors[0]));
  }
}

}  // namespace ramet::runtime
