#include "ramet/sim/moves.h"

#include <algorithm>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/machine/network.h"
#include "ramet/ops/collective.h"
#include "ramet/sim/simulate.h"

namespace ramet::sim {
namespace {

std::string text_of(const Mesh& mesh) {
  std::string text;
  for (const MeshAxis axis : kMeshAxes)
    text += (text.empty() ? "" : " ") + std::string(name_of(axis)) + "=" + std::to_string(mesh.extent(axis));
  return text;
}

std::vector<LinkBytes> sparse(const std::vector<double>& link_bytes, double scale) {
  std::vector<LinkBytes> loads;
  for (size_t link = 0; link < link_bytes.size(); ++link)
    if (link_bytes[link] > 0) loads.push_back({static_cast<int32_t>(link), link_bytes[link] * scale});
  return loads;
}

/// All groups of a collective that have a member in a stage.
std::vector<std::vector<int>> groups_of(const Mesh& mesh, size_t stage, const CollectiveForm& form) {
  const int of_stage = mesh.devices() / mesh.p, first = static_cast<int>(stage) * of_stage;
  std::vector<std::vector<int>> groups;
  for (int device = first; device < first + of_stage; ++device) {
    std::vector<int> group = mesh.group(device, static_cast<MeshAxis>(form.axis), static_cast<int>(form.stride),
                                        static_cast<int>(form.parts));
    const auto here = [&](int member) { return member >= first && member < first + of_stage; };
    if (*std::find_if(group.begin(), group.end(), here) == device) groups.push_back(std::move(group));
  }
  return groups;
}

/// The first thing that a stage's program streams.
const Transfer* streamed(const Executable& exe) {
  for (const ProgramStep& step : exe.train().steps)
    if (step.kind == ProgramStep::Kind::kLoad || step.kind == ProgramStep::Kind::kStore)
      return &exe.transfers[static_cast<size_t>(step.subject)];
  return nullptr;
}

}  // namespace

void check_devices(const Machine& machine, const Mesh& mesh) {
  if (mesh.devices() > machine.devices)
    throw Error({.what = "the layout needs more devices than the machine has",
                 .where = "machine " + machine.name,
                 .found = std::to_string(mesh.devices()) + " devices (" + text_of(mesh) + ")",
                 .expected = "at most " + std::to_string(machine.devices)});
}

std::string lack_of_streaming(std::span<const Executable> stages, const Machine& machine, bool to_files) {
  const MemoryKind* memory = machine.memory(to_files ? MemoryRole::kDisk : MemoryRole::kStreaming);
  if (!memory) return "";
  int64_t most = 0;
  for (const Executable& exe : stages) most = std::max(most, exe.streaming_bytes);
  const int sharing = std::min(stages[0].mesh.devices(), std::max(memory->devices, 1));
  if (most <= memory->bytes / sharing) return "";
  return format_size(most) + " of streaming memory needed for a device, where " + format_size(memory->bytes / sharing) +
         " are";
}

Moves::Moves(std::span<const Executable> stages, const Machine& machine, bool streams_to_files)
    : machine_(machine),
      devices_(stages[0].mesh.devices()),
      stages_(static_cast<int>(stages.size())),
      calls_(stages.size()),
      streams_(stages.size(), {-1, -1}) {
  check_devices(machine, stages[0].mesh);
  if (const std::string lack = lack_of_streaming(stages, machine, streams_to_files); !lack.empty())
    throw DoesNotFit(
        {.what = "what is streamed does not fit into streaming memory",
         .where = "machine " + machine.name,
         .found = lack,
         .remedy = "Stream less (layout.offload), shard it among more devices (t, rts), or, of activations, take "
                   "fewer micro-batches a replica"});
  const Network network(machine);
  for (const LinkLevel& level : machine.links) channels_.push_back({.name = level.name, .bandwidth = 0, .links = 0});
  for (int64_t link = 0; link < network.links(); ++link) {
    Channel& channel = channels_[static_cast<size_t>(network.level(link))];
    channel.bandwidth = network.bandwidth(link);
    ++channel.links;
    add_link(static_cast<int32_t>(network.level(link)), network.bandwidth(link));
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    add_collectives(network, s, stages[s]);
    add_messages(network, s, stages[s]);
  }
  add_streams(stages, streams_to_files);
}

int Moves::what_of_call(size_t stage, int32_t call) const {
  const auto found = calls_[stage].find(call);
  return found == calls_[stage].end() ? -1 : found->second;
}

int Moves::what_of_message(int from, int to) const { return messages_.at({from, to}); }

int Moves::new_what() {
  of_device_.emplace_back(static_cast<size_t>(devices_), -1);
  return static_cast<int>(of_device_.size()) - 1;
}

void Moves::add_move(Move move) {
  for (const int32_t device : move.members)
    of_device_[static_cast<size_t>(move.what)][static_cast<size_t>(device)] = static_cast<int32_t>(moves_.size());
  moves_.push_back(std::move(move));
}

int32_t Moves::add_link(int32_t channel, double bandwidth) {
  bandwidths_.push_back(bandwidth);
  channel_of_.push_back(channel);
  return static_cast<int32_t>(bandwidths_.size()) - 1;
}

void Moves::add_collectives(const Network& network, size_t stage, const Executable& exe) {
  for (size_t call = 0; call < exe.calls.size(); ++call) {
    const NodeSignature& node = exe.calls[call].node;
    if (node.op->exchange == Exchange::kNone) continue;
    const CollectiveForm form = collective_form(node);
    if (form.parts < 2) continue;
    // Members of a collective between stages find each other by this key, those of one stage by its number in it.
    const bool between = form.axis == static_cast<int64_t>(MeshAxis::kStage);
    const CollectiveKey key{between ? -1 : static_cast<int64_t>(stage),
                            static_cast<int64_t>(form.exchange),
                            form.axis,
                            form.parts,
                            form.stride,
                            form.input.bytes(),
                            form.output.bytes()};
    const auto [known, fresh] = collectives_.emplace(key, static_cast<int>(of_device_.size()));
    if (fresh) new_what();
    calls_[stage][static_cast<int32_t>(call)] = known->second;
    const int first = static_cast<int>(stage) * (devices_ / stages_);
    if (fresh || move_of(known->second, first) < 0) add_collective(network, known->second, stage, exe.mesh, form);
  }
}

void Moves::add_collective(const Network& network, int what, size_t stage, const Mesh& mesh,
                           const CollectiveForm& form) {
  const std::vector<std::vector<int>> groups = groups_of(mesh, stage, form);
  const auto bytes = static_cast<double>(std::max(form.input.bytes(), form.output.bytes()));
  const Traffic together = collective(network, form.exchange, bytes, groups);
  // What each group moves of it.
  std::vector<size_t> group_of(static_cast<size_t>(devices_), 0);
  for (size_t g = 0; g < groups.size(); ++g)
    for (const int device : groups[g]) group_of[static_cast<size_t>(device)] = g;
  std::vector<std::vector<NetworkStep>> steps(groups.size());
  for (const NetworkStep& step : together.steps) {
    for (auto& own : steps) own.push_back({.messages = {}, .times = step.times});
    for (const Message& message : step.messages)
      steps[group_of[static_cast<size_t>(message.from)]].back().messages.push_back(message);
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    const Traffic own = network.run(steps[g]);
    add_move({.what = what,
              .members = {groups[g].begin(), groups[g].end()},
              .latency = std::max(own.latency, together.meeting),
              .seconds = own.seconds - own.latency,
              .loads = sparse(own.link_bytes, 1)});
  }
}

void Moves::add_messages(const Network& network, size_t stage, const Executable& exe) {
  constexpr double kBytes = 1e9;
  const int of_stage = devices_ / stages_, here = static_cast<int>(stage);
  for (const ProgramStep& step : exe.train().steps) {
    const bool sends = step.kind == ProgramStep::Kind::kSend;
    if (!sends && step.kind != ProgramStep::Kind::kReceive) continue;
    const int peer = exe.transfers[static_cast<size_t>(step.subject)].peer;
    const int sender = sends ? here : peer, receiver = sends ? peer : here;
    const auto [known, fresh] = messages_.emplace(std::pair(sender, receiver), static_cast<int>(of_device_.size()));
    if (!fresh) continue;
    new_what();
    for (int k = 0; k < of_stage; ++k) {
      const int from = sender * of_stage + k, to = receiver * of_stage + k;
      const Traffic traffic = network.send(from, to, kBytes);
      const bool one_host = from / machine_.links[0].group == to / machine_.links[0].group;
      add_move({.what = known->second,
                .members = {from, to},
                .latency = traffic.latency,
                .seconds = (traffic.seconds - traffic.latency) / kBytes,
                .loads = sparse(traffic.link_bytes, 1 / kBytes),
                .by_device = machine_.processors > 0 && one_host});
    }
  }
}

void Moves::add_streams(std::span<const Executable> stages, bool to_files) {
  const Executable* streaming = nullptr;
  for (const Executable& exe : stages)
    if (!streaming && streamed(exe)) streaming = &exe;
  if (!streaming) return;
  const MemoryRole role = to_files ? MemoryRole::kDisk : MemoryRole::kStreaming;
  const MemoryKind* memory = machine_.memory(role);
  // Threads of one machine share its memory: whatever a device computes with is streaming memory, too.
  const bool shared = machine_.processors > 0;
  const MemoryKind own{.read = machine_.bandwidth() / 2, .write = machine_.bandwidth() / 2};
  if (!memory && shared) memory = &own;
  streams_alone_ = shared && !to_files;
  if (!memory) {
    const std::string name(name_of(role));
    throw Error(
        {.what = "the layout streams, but the machine has no " + name + (to_files ? "" : " memory"),
         .where = "machine " + machine_.name + ", memory." + name,
         .found = "'" + streamed(*streaming)->name + "' of stage " + std::to_string(streaming->stage) + " streams",
         .remedy = "Give the machine a table [memory." + name + "], or the layout no phases and no offload"});
  }
  const std::string name = to_files ? "disk" : "streaming memory";
  const auto channel = static_cast<int32_t>(channels_.size());
  const int together = std::max(1, memory->devices);
  channels_.push_back({.name = name + ", read", .bandwidth = memory->read, .links = devices_});
  channels_.push_back({.name = name + ", write", .bandwidth = memory->write, .links = devices_});
  const bool joint = memory->total > 0 && memory->total < (memory->read + memory->write) * together;
  if (joint)
    channels_.push_back(
        {.name = name + ", shared", .bandwidth = memory->total, .links = (devices_ + together - 1) / together});
  int32_t total = -1;
  std::vector<std::array<int32_t, 3>> links;  // by device
  for (int device = 0; device < devices_; ++device) {
    if (joint && device % together == 0) total = add_link(channel + 2, memory->total);
    const int32_t read = add_link(channel, memory->read), write = add_link(channel + 1, memory->write);
    links.push_back({read, write, total});
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    if (!streamed(stages[s])) continue;
    const int of_stage = devices_ / stages_;
    for (size_t way = 0; way < 2; ++way) {
      streams_[s][way] = new_what();
      for (int k = 0; k < of_stage; ++k) {
        const int device = static_cast<int>(s) * of_stage + k;
        const auto& of_device = links[static_cast<size_t>(device)];
        Move move{
            .what = streams_[s][way], .members = {device}, .latency = memory->latency, .loads = {{of_device[way], 1}}};
        if (joint) move.loads.push_back({of_device[2], 1});
        add_move(std::move(move));
      }
    }
  }
}

}  // namespace ramet::sim
