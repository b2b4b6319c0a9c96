#include "ramet/transport/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/transport/collectives_kernels.h"
#include "ramet/transport/collectives_path.h"

namespace ramet::transport {

// ---- Group

int Group::position_of(int device) const {
  const auto found = std::find(members.begin(), members.end(), device);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

std::string Group::text() const {
  bool consecutive = size() > 2;
  for (size_t i = 1; i < members.size(); ++i) consecutive &= members[i] == members[i - 1] + 1;
  if (consecutive) return fmt::format("{}..{}", members.front(), members.back());
  return fmt::format("{}", fmt::join(members, ", "));
}

Group Group::all(int devices) { return consecutive(0, devices); }
Group Group::consecutive(int device, int parts) { return strided(device, parts, 1); }

Group Group::strided(int device, int parts, int stride) {
  if (device < 0 || parts < 1 || stride < 1)
    throw Error({.what = "a group needs a device from 0, parts and stride from 1",
                 .where = "group of devices",
                 .found = fmt::format("device {}, {} parts, stride {}", device, parts, stride)});
  Group group;
  const int base = device - device / stride % parts * stride;
  for (int k = 0; k < parts; ++k) group.members.push_back(base + k * stride);
  return group;
}

Group Group::orthogonal(int device, int parts, int devices) {
  if (parts < 1 || devices < 1 || devices % parts != 0)
    throw Error({.what = "groups that do not divide the devices",
                 .where = "group of devices",
                 .found = fmt::format("{} devices in groups of {}", devices, parts)});
  return strided(device, devices / parts, parts);
}

// ---- Parts and spans

PartRange part_range(int64_t count, int parts, int part) {
  const int64_t least = count / parts, longer = count % parts;
  const int64_t begin = part * least + std::min<int64_t>(part, longer);
  return {begin, begin + least + (part < longer ? 1 : 0)};
}

std::vector<PartRange> equal_parts(int64_t count, int parts) {
  std::vector<PartRange> ranges;
  for (int part = 0; part < parts; ++part) ranges.push_back(part_range(count, parts, part));
  return ranges;
}

MemberShare in_span(Operation operation, bool is_root) {
  switch (operation) {
    case Operation::kAllReduce:
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
    case Operation::kReduce: return MemberShare::kWhole;
    case Operation::kAllGather:
    case Operation::kGather: return MemberShare::kPart;
    case Operation::kBroadcast:
    case Operation::kScatter: return is_root ? MemberShare::kWhole : MemberShare::kNone;
    case Operation::kBarrier: break;
  }
  return MemberShare::kNone;
}

MemberShare out_span(Operation operation, bool is_root) {
  switch (operation) {
    case Operation::kAllReduce:
    case Operation::kAllGather: return MemberShare::kWhole;
    case Operation::kReduceScatter:
    case Operation::kScatter: return MemberShare::kPart;
    case Operation::kAllToAll: return MemberShare::kStrips;
    case Operation::kReduce:
    case Operation::kGather: return is_root ? MemberShare::kWhole : MemberShare::kNone;
    case Operation::kBroadcast: return is_root ? MemberShare::kNone : MemberShare::kWhole;
    case Operation::kBarrier: break;
  }
  return MemberShare::kNone;
}

// ---- Collectives

struct Collectives::State {
  Transport& transport;
  Group group;
  CollectiveOptions options;
  int position;
  Algorithm algorithm = Algorithm::kAuto;
  std::unique_ptr<CollectivePath> path{};
  std::vector<PartRange> parts{};

  [[noreturn]] void refuse(const std::string& what, const std::string& found, const std::string& expected) const {
    throw Error({.what = what,
                 .where = fmt::format("collective among devices {}, on {}", group.text(),
                                      transport.text_of(transport.device())),
                 .found = found,
                 .expected = expected});
  }
  int host(int index) const { return transport.host_of(group.members[static_cast<size_t>(index)]); }
  /// Members of each host, when hosts hold equal runs of adjacent positions; 0 otherwise.
  int members_per_host() const {
    int run = 1;
    while (run < group.size() && host(run) == host(0)) ++run;
    if (group.size() % run != 0) return 0;
    for (int i = 0; i < group.size(); ++i)
      if (host(i) != host(i / run * run) || (i % run == 0 && i > 0 && host(i) == host(i - 1))) return 0;
    return run;
  }
  void choose();
  void check_group() const;
  void run(CollectiveCall call);
  void check_buffers(const CollectiveCall& call) const;
  void alone(const CollectiveCall& call) const;
};

void Collectives::State::check_group() const {
  std::vector<int> sorted = group.members;
  std::sort(sorted.begin(), sorted.end());
  if (group.members.empty() || position < 0)
    refuse("the device is not in the group", fmt::format("device {}", transport.device()), "");
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    refuse("a device stands twice in the group", fmt::format("{}", fmt::join(group.members, ", ")), "");
  if (sorted.front() < 0 || sorted.back() >= transport.devices())
    refuse("the group names a device that there is not", fmt::format("{}", fmt::join(group.members, ", ")),
           fmt::format("0 to {}", transport.devices() - 1));
}

/// Chooses the algorithms of collectives. All members make the same choice, because it depends on the group and the
/// options alone.
void Collectives::State::choose() {
  const int run = members_per_host();
  const bool one_host = run == group.size();
  const bool exact = options.bits == ExactBits::kExact;
  const bool run_is_subtree = run > 0 && (run & (run - 1)) == 0;
  const bool hierarchical = run > 0 && (run_is_subtree || !exact);
  algorithm = options.algorithm;
  if (algorithm == Algorithm::kAuto)
    algorithm = one_host                  ? Algorithm::kShared
                : hierarchical && run > 1 ? Algorithm::kHierarchical
                : exact                   ? Algorithm::kHalving
                                          : Algorithm::kRing;
  if (algorithm == Algorithm::kRing && exact)
    refuse("a ring adds in an order of its own", "ring with exact bits", "halving, or fast bits");
  if (algorithm == Algorithm::kHierarchical && !hierarchical)
    refuse("hosts do not fit the tree of sums",
           fmt::format("hosts of members {}",
                       [&] {
                         std::vector<int> hosts;
                         for (int i = 0; i < group.size(); ++i) hosts.push_back(host(i));
                         return fmt::format("{}", fmt::join(hosts, ", "));
                       }()),
           "hosts with equal numbers of adjacent members; with exact bits a power of two of them");
  if (algorithm == Algorithm::kHierarchical && one_host) algorithm = Algorithm::kShared;
  if (group.size() == 1) return;
  const bool ring = algorithm == Algorithm::kRing || !exact;
  if (algorithm == Algorithm::kShared) {
    SharedGroup* shared = transport.shared_group(group.members);
    if (!shared) refuse("members do not share memory", "shared", "halving, ring or hierarchical");
    path = make_shared_path(*shared);
  } else if (algorithm == Algorithm::kHierarchical) {
    path = make_hierarchical_path(transport, group, run, ring);
  } else {
    path = make_message_path(transport, group, algorithm == Algorithm::kRing);
  }
}

Collectives::Collectives(Transport& transport, Group group, CollectiveOptions options)
    : state_(std::make_unique<State>(State{transport, std::move(group), options, 0})) {
  state_->position = state_->group.position_of(transport.device());
  state_->check_group();
  state_->parts.resize(state_->group.members.size());
  state_->choose();
}

Collectives::~Collectives() = default;
const Group& Collectives::group() const { return state_->group; }
int Collectives::position() const { return state_->position; }
int Collectives::size() const { return state_->group.size(); }
Algorithm Collectives::algorithm() const { return state_->algorithm; }
int64_t Collectives::scratch_bytes() const { return state_->path ? state_->path->scratch_bytes() : 0; }

namespace {

int64_t elements(MemberShare span, int64_t count, const PartRange& part, int members) {
  switch (span) {
    case MemberShare::kNone: return 0;
    case MemberShare::kWhole: return count;
    case MemberShare::kPart: return part.count();
    case MemberShare::kStrips: return part.count() * members;
  }
  return 0;
}

bool is_reduction(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kReduceScatter ||
         operation == Operation::kReduce;
}

}  // namespace

/// Buffers may be the same where the header says so; otherwise they must be apart.
void Collectives::State::check_buffers(const CollectiveCall& call) const {
  const PartRange part = part_range(call.count, group.size(), position);
  const bool root = call.root == position;
  const auto size = static_cast<int64_t>(size_of(call.dtype));
  const int64_t in_bytes = elements(in_span(call.operation, root), call.count, part, group.size()) * size;
  const int64_t out_bytes = elements(out_span(call.operation, root), call.count, part, group.size()) * size;
  const std::string name = std::string(name_of(call.operation));
  if ((in_bytes > 0 && !call.in) || (out_bytes > 0 && !call.out)) refuse("no buffer given to " + name, "null", "");
  for (const auto address : {reinterpret_cast<uintptr_t>(call.in), reinterpret_cast<uintptr_t>(call.out)})
    if (address % static_cast<uintptr_t>(size) != 0)
      refuse("a buffer of " + name + " is not aligned to its elements", fmt::format("address {:#x}", address),
             fmt::format("a multiple of {}", size));
  if (in_bytes == 0 || out_bytes == 0) return;
  if (call.in + in_bytes <= call.out || call.out + out_bytes <= call.in) return;
  const int64_t offset = part.begin * size;
  const Operation operation = call.operation;
  const bool same = (operation == Operation::kAllReduce || operation == Operation::kReduce) && call.in == call.out;
  const bool out_in =
      (operation == Operation::kReduceScatter || operation == Operation::kScatter) && call.out == call.in + offset;
  const bool in_out =
      (operation == Operation::kAllGather || operation == Operation::kGather) && call.in == call.out + offset;
  if (!same && !out_in && !in_out) refuse("buffers of " + name + " overlap", "", "the same place or places apart");
}

/// A group of one.
void Collectives::State::alone(const CollectiveCall& call) const {
  const auto bytes = static_cast<size_t>(call.count) * size_of(call.dtype);
  if (call.operation == Operation::kBroadcast || call.operation == Operation::kBarrier) return;
  if (bytes > 0 && call.in != call.out) std::memmove(call.out, call.in, bytes);
}

void Collectives::State::run(CollectiveCall call) {
  if (call.count < 0)
    refuse(fmt::format("negative count for {}", name_of(call.operation)), std::to_string(call.count), "");
  if (is_reduction(call.operation) && !reducible(call.dtype))
    refuse(fmt::format("{} of a type that is not added", name_of(call.operation)), std::string(name_of(call.dtype)),
           "f32, bf16, f16, i32 or i64");
  const bool rooted = call.operation == Operation::kBroadcast || call.operation == Operation::kReduce ||
                      call.operation == Operation::kGather || call.operation == Operation::kScatter;
  if (rooted && (call.root < 0 || call.root >= group.size()))
    refuse(fmt::format("{} with a root that there is not", name_of(call.operation)), std::to_string(call.root),
           fmt::format("position 0 to {}", group.size() - 1));
  check_buffers(call);
  transport.check();
  if (group.size() == 1) return alone(call);
  for (int i = 0; i < group.size(); ++i) parts[static_cast<size_t>(i)] = part_range(call.count, group.size(), i);
  call.parts = parts;
  path->run(call);
}

namespace {

CollectiveCall make_call(Operation operation, const void* in, void* out, int64_t count, DType dtype,
                         Reduction kind = Reduction::kSum, int root = -1) {
  CollectiveCall call;
  call.operation = operation;
  call.in = static_cast<const std::byte*>(in);
  call.out = static_cast<std::byte*>(out);
  call.count = count;
  call.dtype = call.out_dtype = dtype;
  call.kind = kind;
  call.root = root;
  return call;
}

}  // namespace

void Collectives::all_reduce(const void* in, void* out, int64_t count, DType dtype, Reduction kind) {
  state_->run(make_call(Operation::kAllReduce, in, out, count, dtype, kind));
}
void Collectives::reduce_scatter(const void* in, void* out, int64_t count, DType dtype, Reduction kind) {
  state_->run(make_call(Operation::kReduceScatter, in, out, count, dtype, kind));
}
void Collectives::all_gather(const void* in, void* out, int64_t count, DType dtype) {
  state_->run(make_call(Operation::kAllGather, in, out, count, dtype));
}
void Collectives::all_to_all(const void* in, void* out, int64_t count, DType dtype) {
  state_->run(make_call(Operation::kAllToAll, in, out, count, dtype));
}
void Collectives::broadcast(void* data, int64_t count, DType dtype, int root) {
  state_->run(make_call(Operation::kBroadcast, data, data, count, dtype, Reduction::kSum, root));
}
void Collectives::reduce(const void* in, void* out, int64_t count, DType dtype, int root, Reduction kind) {
  state_->run(make_call(Operation::kReduce, in, out, count, dtype, kind, root));
}
void Collectives::gather(const void* in, void* out, int64_t count, DType dtype, int root) {
  state_->run(make_call(Operation::kGather, in, out, count, dtype, Reduction::kSum, root));
}
void Collectives::scatter(const void* in, void* out, int64_t count, DType dtype, int root) {
  state_->run(make_call(Operation::kScatter, in, out, count, dtype, Reduction::kSum, root));
}
void Collectives::barrier() { state_->run(make_call(Operation::kBarrier, nullptr, nullptr, 0, DType::kU8)); }

void Collectives::send(const void* data, int64_t count, DType dtype, int to) {
  if (to < 0 || to >= size()) state_->refuse("send to a position that there is not", std::to_string(to), "");
  state_->transport.send(state_->group.members[static_cast<size_t>(to)], Transport::kUserTags + 1, data,
                         static_cast<size_t>(count) * size_of(dtype));
}
void Collectives::receive(void* data, int64_t count, DType dtype, int from) {
  if (from < 0 || from >= size()) state_->refuse("receive from a position that there is not", std::to_string(from), "");
  state_->transport.receive(state_->group.members[static_cast<size_t>(from)], Transport::kUserTags + 1, data,
                            static_cast<size_t>(count) * size_of(dtype));
}

}  // namespace ramet::transport
