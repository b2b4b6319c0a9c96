#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ramet/transport/transport.h"
#include "ramet/transport/transport_memory.h"
#include "ramet/transport/transport_region.h"

namespace ramet::transport {

/// The purpose of a round of a group.
enum class Operation : uint8_t {
  kBarrier,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kReduce,
  kGather,
  kScatter
};
std::string_view name_of(Operation operation);

/// The host and the process of each device. The same in every process of a world.
struct WorldMembers {
  std::vector<int> hosts;      ///< of each device, numbered in order of first device
  std::vector<int> processes;  ///< number of the process (MPI rank) of each device
  bool ranks = false;          ///< devices are called "rank N": each process has one
  std::string name;            ///< of the transport
  TransportOptions options;
};

/// The reason of a wait: its text ("all-reduce of devices 0..3") and the devices that can end it.
struct WaitReason {
  std::function<std::string()> text;
  std::function<std::vector<int>()> awaited;
};

/// One process's view of the devices of its host: the region that they share, its memory, and how it waits.
class SharedWorld {
 public:
  /// All devices in this process.
  explicit SharedWorld(WorldMembers members);
  /// Devices of several processes: `region` is the file that the first process of `host` made by `make_region`. Each
  /// process then tells the peers its `own` devices, and calls `watch_peers` when all have.
  SharedWorld(WorldMembers members, int host, SharedFile region, std::span<const int> own);
  ~SharedWorld();
  SharedWorld(const SharedWorld&) = delete;
  SharedWorld& operator=(const SharedWorld&) = delete;

  /// The region of one host's devices, initialized.
  static SharedFile make_region(const WorldMembers& members, int host);
  void watch_peers();

  const WorldMembers& members() const { return members_; }
  const RegionLayout& layout() const { return layout_; }
  std::byte* region() const { return region_.data; }
  RegionHeader& header() const { return layout_.header(region_.data); }
  ProgressSlot& progress(int device) const { return layout_.progress(region_.data, device); }
  SharedMemory& memory() { return memory_; }
  int devices() const { return static_cast<int>(members_.hosts.size()); }
  /// Index of a device among those of this host, or -1.
  int local_of(int device) const { return local_of_[static_cast<size_t>(device)]; }
  int device_of_local(int local) const { return locals_[static_cast<size_t>(local)]; }
  /// Whether more devices share this host than it has processors: then spinning only keeps others from working.
  bool crowded() const { return crowded_; }
  int processors() const { return processors_; }
  std::string text_of(int device) const;
  std::string text_of(std::span<const int> devices) const;

  /// First of `devices` whose process has ended, or -1.
  int ended(std::span<const int> devices) const;
  /// Whether the process of a device works still, as far as this host can see: it has neither ended nor been halted.
  bool runs(int device) const;
  /// Ends the processes of this host that are halted (SIGSTOP): when the world is stopped and all others leave, the
  /// program that started the job would wait for them.
  void end_halted_peers() noexcept;
  void stop(int device, std::string_view reason) noexcept;
  bool stopped() const { return header().stop_state.load(std::memory_order_acquire) != 0; }
  /// The device that stopped the world, and its reason; waits a moment for the text.
  std::pair<int, std::string> stop_reason() const;

 private:
  void number_locals(int host);

  WorldMembers members_;
  std::vector<int> locals_, local_of_;
  RegionLayout layout_;
  SharedFile region_;
  bool attached_ = false;
  SharedMemory memory_;
  int processors_;
  bool crowded_;
  std::vector<int> watch_;  // by local device: a descriptor that becomes readable when its process ends, or -1
};

/// The endpoint of one device to the others of its host; the whole transport where there is one host.
class SharedEndpoint : public Transport {
 public:
  SharedEndpoint(std::shared_ptr<SharedWorld> world, int device);
  ~SharedEndpoint() override;

  std::string_view name() const override { return world_->members().name; }
  int host_of(int device) const override { return world_->members().hosts[static_cast<size_t>(device)]; }
  std::string text_of(int device) const override { return world_->text_of(device); }
  std::byte* allocate(size_t bytes) override;
  void release(std::byte* memory) override;
  Ticket start_send(int to, int tag, const void* data, size_t bytes) override;
  Ticket start_receive(int from, int tag, void* data, size_t bytes) override;
  bool arrived(Ticket ticket) override;
  void wait(Ticket ticket) override;
  SharedGroup* shared_group(std::span<const int> members) override;
  void finish_superstep(uint64_t number, int label) override;
  Progress progress_of(int device) const override;
  void stop(std::string_view reason) noexcept override { world_->stop(device(), reason); }
  bool stopped() const override { return world_->stopped(); }
  void check() const override;

  SharedWorld& world() { return *world_; }
  /// Blocks until `word` is no longer `seen`; throws as the class Transport says.
  void wait_while(WaitWord& word, uint32_t seen, const WaitReason& reason);
  /// Stops the world for this fault and throws it.
  [[noreturn]] void fail(const std::string& where, const std::string& what, const std::string& found,
                         const std::string& remedy);
  [[noreturn]] void throw_stopped(const std::string& where) const;

 protected:
  void check_peer(int peer, int tag, const char* what) const;
  std::shared_ptr<SharedWorld> world_;

 private:
  /// A message that this side has started and not yet waited for.
  struct Pending {
    Mailbox* box = nullptr;
    MessageSlot* slot = nullptr;
    bool sends = false;
    int peer = 0, tag = 0;
    std::byte* data = nullptr;
    size_t bytes = 0;
    std::byte* block = nullptr;  ///< staging copy, when the data are this process's own
    size_t block_bytes = 0;
  };
  class MailboxLock;
  Ticket start(Pending pending);
  MessageSlot* partner(const Pending& pending) const;
  MessageSlot* free_slot(Mailbox& box) const;
  void meet(Pending& pending, const SharedAddress& address);
  void copy(MessageSlot& slot);
  Pending& pending_of(Ticket ticket);
  void leave_slot(const Pending& pending);
  WaitReason message_reason(const Pending& pending) const;
  [[noreturn]] void throw_sizes(const Pending& pending);
  void stage(Pending& pending);

  std::vector<std::byte*> allocations_;
  std::vector<std::unique_ptr<SharedGroup>> groups_;
  std::vector<Pending> pending_;
  std::vector<int64_t> free_pending_;
  std::vector<std::pair<size_t, std::byte*>> free_blocks_;  // staging of messages, by size
};

/// The meeting place of one device with the others of a group that shares memory.
class SharedGroup {
 public:
  /// Where the members' buffers of a round are, by position, as this process sees them.
  struct Peers {
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
  };
  /// Does piece `piece` of a round. Any member may be asked to do any piece.
  using Work = std::function<void(int64_t piece, const Peers& peers)>;

  SharedGroup(SharedEndpoint& endpoint, std::span<const int> members);

  std::span<const int> members() const { return members_; }
  int size() const { return static_cast<int>(members_.size()); }
  int position() const { return position_; }

  /// Meets the other members, which all make the same call. Members that are awake do pieces until all pieces are done;
  /// then the call returns true. It returns false on all members, and no piece is done, when the others cannot reach
  /// some member's memory. `heavy`: the pieces are worth waking sleepers for. Throws Error when members' calls differ,
  /// and as waits do.
  bool run(const RoundCall& call, const void* in, size_t in_bytes, void* out, size_t out_bytes, int64_t pieces,
           bool heavy, const Work& work);
  void barrier() { run({}, nullptr, 0, nullptr, 0, 0, false, {}); }

  /// This member's own memory for copies, of at least `bytes`; reachable by the others.
  std::byte* staging(size_t bytes);

 private:
  GroupSlot& find_slot();
  void open_round(uint32_t open, int64_t pieces, bool heavy);
  void do_pieces(uint32_t closed, const Work& work);
  void resolve_peers();
  /// Where the share of a member begins; shares are equal runs of pieces, in order of positions.
  int64_t share_begin(int64_t pieces, int position) const { return pieces * position / size(); }
  RoundVerdict judge() const;
  bool reachable(const SharedAddress& address) const;
  [[noreturn]] void throw_mismatch();
  WaitReason wait_reason() const;

  SharedEndpoint& endpoint_;
  std::vector<int> members_;
  int position_;
  bool one_process_;
  GroupSlot& slot_;
  RoundPost* posts_;
  uint64_t round_ = 0;
  RoundCall call_;
  Peers peers_;
  std::byte* staging_ = nullptr;
  size_t staging_bytes_ = 0;
};

/// "all-reduce of 1024 f32": for messages.
std::string round_call_text(const RoundCall& call);

}  // namespace ramet::transport
