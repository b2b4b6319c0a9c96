#include <cstring>

#include "ramet/base/error.h"
#include "ramet/runtime/arena.h"
#include "ramet/runtime/streaming_store.h"

namespace ramet::runtime {
namespace {

/// An arena beside the device's. Transfers are done when they are started.
class RamStore final : public StreamingStore {
 public:
  RamStore(int64_t bytes, ThreadTeam* team)
      : single_(1), team_(team ? *team : single_), arena_(bytes, team_, "streaming memory") {}

  std::string_view name() const override { return "ram"; }
  int64_t bytes() const override { return arena_.bytes(); }
  int64_t scratch_bytes() const override { return 0; }

  Ticket start_load(int64_t offset, void* to, int64_t bytes) override {
    copy(checked(offset, bytes), to, bytes);
    return {next_++};
  }
  Ticket start_store(int64_t offset, const void* from, int64_t bytes) override {
    copy(from, checked(offset, bytes), bytes);
    return {next_++};
  }
  void wait(Ticket ticket) override {
    if (!ticket.valid() || ticket.id >= next_) internal_error("RamStore::wait", "no such ticket");
  }

 private:
  std::byte* checked(int64_t offset, int64_t bytes) const {
    if (offset < 0 || bytes < 0 || offset > arena_.bytes() - bytes)
      internal_error("RamStore", "range " + std::to_string(offset) + "+" + std::to_string(bytes) + " of " +
                                     std::to_string(arena_.bytes()));
    return arena_.data() + offset;
  }
  void copy(const void* from, void* to, int64_t bytes) {
    team_.split(bytes, 1 << 16, [&](int64_t begin, int64_t end, int) {
      std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                  static_cast<size_t>(end - begin));
    });
  }

  ThreadTeam single_;  // where no team is given; has no threads of its own
  ThreadTeam& team_;
  Arena arena_;
  int64_t next_ = 0;
};

}  // namespace

std::unique_ptr<StreamingStore> make_ram_store(int64_t bytes, ThreadTeam* team) {
  return std::make_unique<RamStore>(bytes, team);
}

}  // namespace ramet::runtime
