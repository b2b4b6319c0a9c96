#include "ramet/transport/mpi_transport.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "ramet/base/error.h"
#include "ramet/transport/mpi_courier.h"
#include "ramet/transport/transport_shared.h"

namespace ramet::transport {

namespace {

constexpr int kTags = 2 * Transport::kUserTags;  // of callers and of collectives
constexpr int64_t kRemote = int64_t{1} << 40;    // tickets from here on are of other hosts' messages

/// Shared memory to the devices of its host, the courier to all others.
class MpiEndpoint final : public SharedEndpoint {
 public:
  MpiEndpoint(std::shared_ptr<SharedWorld> world, std::shared_ptr<MpiCourier> courier, int device, int devices_per_rank)
      : SharedEndpoint(std::move(world), device), courier_(std::move(courier)), per_rank_(devices_per_rank) {}

  Ticket start_send(int to, int tag, const void* data, size_t bytes) override {
    check_peer(to, tag, "send to");
    if (world_->local_of(to) >= 0) return SharedEndpoint::start_send(to, tag, data, bytes);
    return start_remote(to, tag, static_cast<std::byte*>(const_cast<void*>(data)), bytes, true);
  }
  Ticket start_receive(int from, int tag, void* data, size_t bytes) override {
    check_peer(from, tag, "receive from");
    if (world_->local_of(from) >= 0) return SharedEndpoint::start_receive(from, tag, data, bytes);
    return start_remote(from, tag, static_cast<std::byte*>(data), bytes, false);
  }
  bool arrived(Ticket ticket) override {
    if (ticket.id < kRemote) return SharedEndpoint::arrived(ticket);
    return remote(ticket).transfer->state.value.load(std::memory_order_acquire) != MpiMessage::kUnderWay || stopped();
  }
  void wait(Ticket ticket) override;

 private:
  struct Remote {
    std::shared_ptr<MpiMessage> transfer;  // shared: after a fault MPI may still write to it
    int peer = 0, tag = 0;
  };
  Ticket start_remote(int peer, int tag, std::byte* data, size_t bytes, bool sends);
  Remote& remote(Ticket ticket) {
    const auto found = remote_.find(ticket.id);
    if (found == remote_.end()) internal_error("Transport::wait", fmt::format("ticket {} is not under way", ticket.id));
    return found->second;
  }
  std::string text(const Remote& message) const {
    return fmt::format("{} of {} bytes {} {} (tag {})", message.transfer->sends ? "send" : "receive",
                       message.transfer->bytes, message.transfer->sends ? "to" : "from", text_of(message.peer),
                       message.tag);
  }

  std::shared_ptr<MpiCourier> courier_;
  int per_rank_;
  std::map<int64_t, Remote> remote_;
  int64_t next_ = kRemote;
};

Ticket MpiEndpoint::start_remote(int peer, int tag, std::byte* data, size_t bytes, bool sends) {
  check();
  if (tag >= kTags) throw Error({.what = "tag too large", .where = text_of(device()), .found = std::to_string(tag)});
  const int source = (sends ? device() : peer) % per_rank_, target = (sends ? peer : device()) % per_rank_;
  auto transfer = std::make_shared<MpiMessage>();
  transfer->sends = sends;
  transfer->rank = peer / per_rank_;
  transfer->mpi_tag = (source * per_rank_ + target) * kTags + tag;
  transfer->data = data;
  transfer->bytes = bytes;
  courier_->carry(transfer);
  remote_[next_] = {std::move(transfer), peer, tag};
  return {next_++};
}

void MpiEndpoint::wait(Ticket ticket) {
  if (ticket.id < kRemote) return SharedEndpoint::wait(ticket);
  Remote& message = remote(ticket);
  const WaitReason reason{[&] { return text(message); }, [&] { return std::vector<int>{message.peer}; }};
  WaitWord& state = message.transfer->state;
  while (state.value.load(std::memory_order_acquire) == MpiMessage::kUnderWay)
    wait_while(state, MpiMessage::kUnderWay, reason);
  if (state.value.load(std::memory_order_acquire) == MpiMessage::kFailed)
    fail(fmt::format("{}, on {}", text(message), text_of(device())), "the message failed", message.transfer->failure,
         "");
  remote_.erase(ticket.id);
}

void check_all(MPI_Comm comm, const std::string& error) {
  int failed = error.empty() ? 0 : 1, any = 0;
  MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, comm);
  if (any)
    throw Error({.what = "ranks cannot meet",
                 .where = "mpi transport",
                 .found = error.empty() ? "another rank failed" : error,
                 .expected = "",
                 .remedy = "The first error message of any rank says why"},
                ErrorKind::kFailure);
}

}  // namespace

struct MpiSession::State {
  int rank = 0, ranks = 1;
  MPI_Comm messages = MPI_COMM_NULL, control = MPI_COMM_NULL;
  std::shared_ptr<SharedWorld> world{};
  std::shared_ptr<MpiCourier> courier{};
  bool left = false, made = false;

  /// Number of each rank's host, in order of first rank.
  std::vector<int> find_hosts(int pretend_hosts) const {
    MPI_Comm host = MPI_COMM_NULL;
    MPI_Comm_split_type(messages, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
    int first = rank;
    MPI_Bcast(&first, 1, MPI_INT, 0, host);
    MPI_Comm_free(&host);
    const int pretended = static_cast<int>(static_cast<int64_t>(rank) * pretend_hosts / ranks);
    const int key[2] = {first, pretended};
    std::vector<int> keys(static_cast<size_t>(2 * ranks));
    MPI_Allgather(key, 2, MPI_INT, keys.data(), 2, MPI_INT, messages);
    std::map<std::pair<int, int>, int> numbers;
    std::vector<int> hosts;
    for (size_t i = 0; i < keys.size(); i += 2)
      hosts.push_back(numbers.emplace(std::pair(keys[i], keys[i + 1]), static_cast<int>(numbers.size())).first->second);
    return hosts;
  }
  void join_region(WorldMembers members, const std::vector<int>& hosts, const std::vector<int>& own);
};

bool mpi_built() { return true; }

MpiSession::MpiSession() : state_(std::make_unique<State>()) {
  int started = 0, level = 0;
  MPI_Initialized(&started);
  if (started) throw Error({.what = "MPI was started before", .where = "mpi transport"}, ErrorKind::kFailure);
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  if (level < MPI_THREAD_SERIALIZED)
    throw Error({.what = "this MPI cannot be called from more than one thread", .where = "mpi transport"},
                ErrorKind::kFailure);
  MPI_Comm_dup(MPI_COMM_WORLD, &state_->messages);
  MPI_Comm_dup(MPI_COMM_WORLD, &state_->control);
  MPI_Comm_rank(state_->messages, &state_->rank);
  MPI_Comm_size(state_->messages, &state_->ranks);
}

MpiSession::~MpiSession() { leave(); }
int MpiSession::rank() const { return state_->rank; }
int MpiSession::ranks() const { return state_->ranks; }

void MpiSession::agree(const std::string& fault) const {
  const MPI_Comm comm = state_->messages;
  const int mine = fault.empty() ? state_->ranks : state_->rank;
  int first = state_->ranks;
  MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, comm);
  if (first == state_->ranks) return;
  std::string text = fault;
  int size = static_cast<int>(std::min<size_t>(text.size(), 1 << 16));
  MPI_Bcast(&size, 1, MPI_INT, first, comm);
  text.resize(static_cast<size_t>(size));
  MPI_Bcast(text.data(), size, MPI_CHAR, first, comm);
  if (fault.empty())
    throw Error({.what = "another rank cannot begin", .where = fmt::format("rank {}", first), .found = text},
                ErrorKind::kFailure);
}

/// The first rank of each host makes the region; the others of the host open it.
void MpiSession::State::join_region(WorldMembers members, const std::vector<int>& hosts, const std::vector<int>& own) {
  const int host = hosts[static_cast<size_t>(rank)];
  const int leader = static_cast<int>(std::ranges::find(hosts, host) - hosts.begin());
  SharedFile region;
  std::string error;
  try {
    if (leader == rank) region = SharedWorld::make_region(members, host);
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  check_all(messages, error);
  const int place[2] = {getpid(), region.file};
  std::vector<int> places(static_cast<size_t>(2 * ranks));
  MPI_Allgather(place, 2, MPI_INT, places.data(), 2, MPI_INT, messages);
  try {
    if (leader != rank)
      region = SharedFile::open(places[static_cast<size_t>(2 * leader)], places[static_cast<size_t>(2 * leader + 1)]);
    world = std::make_shared<SharedWorld>(std::move(members), host, region, own);
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  check_all(messages, error);
  world->watch_peers();
  MPI_Barrier(messages);
}

Transports MpiSession::make_transports(int devices_per_rank, const TransportOptions& options, int pretend_hosts) {
  State& state = *state_;
  int* tag_limit = nullptr;
  int found = 0;
  MPI_Comm_get_attr(state.messages, MPI_TAG_UB, static_cast<void*>(&tag_limit), &found);
  const int64_t limit = found ? *tag_limit : 32767;
  const int mine[2] = {devices_per_rank, pretend_hosts};
  std::vector<int> all(static_cast<size_t>(2 * state.ranks));
  MPI_Allgather(mine, 2, MPI_INT, all.data(), 2, MPI_INT, state.messages);
  std::string error;
  if (state.made) error = "transports were made before";
  if (devices_per_rank < 1) error = fmt::format("{} devices a rank", devices_per_rank);
  if (int64_t{devices_per_rank} * devices_per_rank * kTags > limit)
    error = fmt::format("{} devices a rank need tags beyond this MPI's {}", devices_per_rank, limit);
  for (size_t i = 0; i < all.size(); i += 2)
    if (all[i] != devices_per_rank || all[i + 1] != pretend_hosts)
      error = fmt::format("rank {} has {} devices, rank {} has {}", state.rank, devices_per_rank, i / 2, all[i]);
  check_all(state.messages, error);
  state.made = true;
  MPI_Comm_set_errhandler(state.messages, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(state.control, MPI_ERRORS_RETURN);

  const std::vector<int> hosts = state.find_hosts(pretend_hosts);
  WorldMembers members;
  members.name = "mpi";
  members.ranks = devices_per_rank == 1;
  members.options = options;
  for (int rank = 0; rank < state.ranks; ++rank)
    for (int index = 0; index < devices_per_rank; ++index) {
      members.hosts.push_back(hosts[static_cast<size_t>(rank)]);
      members.processes.push_back(rank);
    }
  std::vector<int> own, leaders, others;
  for (int index = 0; index < devices_per_rank; ++index) own.push_back(state.rank * devices_per_rank + index);
  const int host = hosts[static_cast<size_t>(state.rank)];
  for (int rank = 0; rank < state.ranks; ++rank) {
    const int there = hosts[static_cast<size_t>(rank)];
    if (there == host) continue;
    others.push_back(rank);
    if (std::ranges::find(hosts, there) - hosts.begin() == rank) leaders.push_back(rank);
  }
  state.join_region(std::move(members), hosts, own);
  if (!others.empty())
    state.courier = std::make_shared<MpiCourier>(state.messages, state.control, state.world, own, leaders, others);
  Transports endpoints;
  for (const int device : own)
    endpoints.push_back(std::make_unique<MpiEndpoint>(state.world, state.courier, device, devices_per_rank));
  return endpoints;
}

bool MpiSession::stopped() const { return state_->world && state_->world->stopped(); }

bool MpiSession::is_first_running() const {
  if (!state_->world) return state_->rank == 0;
  for (int device = 0; device < state_->world->devices(); ++device) {
    if (state_->world->members().processes[static_cast<size_t>(device)] == state_->rank) return true;
    if (state_->world->runs(device)) return false;
  }
  return false;
}

bool MpiSession::leave() {
  State& state = *state_;
  if (state.left) return !state.world || !state.world->stopped();
  state.left = true;
  if (state.courier) state.courier->finish();
  if (state.world && state.world->stopped()) {
    state.world->end_halted_peers();
    return false;
  }
  MPI_Finalize();
  return true;
}

}  // namespace ramet::transport
