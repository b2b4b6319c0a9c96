// Collectives of members that share memory: one round, in which each piece of the whole is read once from where it lies
// and written once to wherever it belongs. Memory that peers cannot reach goes window by window through staging memory
// that they can.

#include <algorithm>
#include <cstring>

#include "ramet/transport/collectives_kernels.h"
#include "ramet/transport/collectives_path.h"

namespace ramet::transport {

namespace {

// A piece keeps one processor busy for microseconds: long beside what taking it costs (a tenth), short beside a whole
// call.
constexpr int64_t kPieceBytes = 32 << 10;
// From how many bytes touched in all a round is worth waking sleepers for.
constexpr int64_t kHeavyBytes = 512 << 10;
// From how many bytes written in all they bypass the caches: they would not stay there.
constexpr int64_t kStreamBytes = 24 << 20;
// Up to how many bytes written in all each receiver's copy is a piece of work for itself, so that it is made by the
// receiver and into its own caches. For more bytes, each piece is read once and written to all receivers.
constexpr int64_t kPullBytes = 4 << 20;
// What a member stages at a time: all members' windows stay in the caches.
constexpr int64_t kWindowBytes = 512 << 10;

/// Part of a call: all of it, or the elements of a window.
struct Window {
  int64_t begin = 0, end = 0;
  bool staged = false;
};

class SharedPath : public CollectivePath {
 public:
  explicit SharedPath(SharedGroup& group)
      : group_(group), in_(group.members().size()), out_(group.members().size()), targets_(group.members().size()) {}

  void run(const CollectiveCall& call) override {
    call_ = &call;
    in_size_ = static_cast<int64_t>(size_of(call.dtype));
    out_size_ = static_cast<int64_t>(size_of(call.out_dtype));
    if (round({0, call.count, false}, call.in, call.out)) return;
    const int64_t step = std::max<int64_t>(kWindowBytes / std::max(in_size_, out_size_), 1);
    for (int64_t begin = 0; begin < call.count; begin += step) stage({begin, std::min(call.count, begin + step), true});
  }

 private:
  int members() const { return group_.size(); }
  const PartRange& part(int position) const { return call_->parts[static_cast<size_t>(position)]; }
  MemberShare in_of(int position) const { return in_span(call_->operation, position == call_->root); }
  MemberShare out_of(int position) const { return out_span(call_->operation, position == call_->root); }
  static PartRange overlap(PartRange a, const Window& b) {
    const PartRange both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
    return both.end > both.begin ? both : PartRange{b.begin, b.begin};
  }
  /// Elements between two strips of a member's output.
  int64_t strip(int position, const Window& window) const {
    return window.staged ? window.end - window.begin : part(position).count();
  }
  /// Index, in the buffer that a member posts, of element `at` of the whole. `source`: the member that a strip comes
  /// from.
  int64_t index(MemberShare span, int position, const Window& window, int64_t at, int source = 0) const {
    if (span == MemberShare::kWhole) return at - window.begin;
    const int64_t first = std::max(part(position).begin, window.begin);
    return at - first + (span == MemberShare::kStrips ? source * strip(position, window) : 0);
  }
  int64_t posted(MemberShare span, int position, const Window& window) const {
    switch (span) {
      case MemberShare::kNone: return 0;
      case MemberShare::kWhole: return window.end - window.begin;
      case MemberShare::kPart: return overlap(part(position), window).count();
      case MemberShare::kStrips: return strip(position, window) * members();
    }
    return 0;
  }

  bool round(const Window& window, const std::byte* in, std::byte* out);
  void pull(const Window& window, const SharedGroup::Peers& peers, int receiver, int64_t begin, int64_t end);
  void piece(const Window& window, const SharedGroup::Peers& peers, int64_t begin, int64_t end);
  void piece_of_part(const Window& window, const SharedGroup::Peers& peers, int owner, int64_t begin, int64_t end);
  void reduce(const Window& window, const SharedGroup::Peers& peers, std::span<const int> receivers, int64_t begin,
              int64_t end);
  void copy(const Window& window, const SharedGroup::Peers& peers, int giver, std::span<const int> receivers,
            int64_t begin, int64_t end);
  void stage(const Window& window);

  SharedGroup& group_;
  const CollectiveCall* call_ = nullptr;
  int64_t in_size_ = 0, out_size_ = 0;
  bool stream_ = false;
  std::vector<const std::byte*> in_;
  std::vector<std::byte*> out_, targets_;
  std::vector<int> all_ = [this] {
    std::vector<int> all;
    for (int i = 0; i < members(); ++i) all.push_back(i);
    return all;
  }();
};

bool SharedPath::round(const Window& window, const std::byte* in, std::byte* out) {
  const CollectiveCall& call = *call_;
  const int own = group_.position();
  const int64_t count = window.end - window.begin;
  const int64_t step = std::max<int64_t>(kPieceBytes / in_size_, 1);
  const bool to_all = call.operation == Operation::kAllReduce || call.operation == Operation::kAllGather ||
                      call.operation == Operation::kBroadcast || call.operation == Operation::kAllToAll;
  const bool from_all = call.operation == Operation::kAllReduce || call.operation == Operation::kReduceScatter ||
                        call.operation == Operation::kReduce || call.operation == Operation::kAllToAll;
  const int64_t read = count * in_size_ * (from_all ? members() : 1),
                written = count * out_size_ * (to_all ? members() : 1);
  const bool in_place = from_all && call.in == call.out;  // the bytes just read are in the caches anyway
  stream_ = !window.staged && written >= kStreamBytes && !in_place;
  RoundCall posted_call;
  posted_call.operation = static_cast<uint8_t>(call.operation);
  posted_call.dtype = static_cast<uint8_t>(call.dtype);
  posted_call.reduction = static_cast<uint8_t>(call.kind);
  posted_call.root = call.root;
  posted_call.count = call.count;
  const bool pulls =
      (call.operation == Operation::kAllGather || call.operation == Operation::kBroadcast) && written <= kPullBytes;
  const int64_t steps = (count + step - 1) / step;
  return group_.run(
      posted_call, in, static_cast<size_t>(posted(in_of(own), own, window) * in_size_), out,
      static_cast<size_t>(posted(out_of(own), own, window) * out_size_), pulls ? steps * members() : steps,
      read + written >= kHeavyBytes, [&](int64_t index, const SharedGroup::Peers& peers) {
        const int64_t begin = window.begin + index % steps * step, end = std::min(window.end, begin + step);
        if (pulls)
          pull(window, peers, static_cast<int>(index / steps), begin, end);
        else
          piece(window, peers, begin, end);
      });
}

/// The piece of one receiver of an all-gather or a broadcast.
void SharedPath::pull(const Window& window, const SharedGroup::Peers& peers, int receiver, int64_t begin, int64_t end) {
  const std::span<const int> only(&receiver, 1);
  if (call_->operation == Operation::kBroadcast) return copy(window, peers, call_->root, only, begin, end);
  for (int owner = 0; owner < members(); ++owner) {
    const int64_t from = std::max(begin, part(owner).begin), to = std::min(end, part(owner).end);
    if (from < to) copy(window, peers, owner, only, from, to);
  }
}

void SharedPath::piece(const Window& window, const SharedGroup::Peers& peers, int64_t begin, int64_t end) {
  const Operation operation = call_->operation;
  if (operation == Operation::kAllReduce) return reduce(window, peers, all_, begin, end);
  if (operation == Operation::kReduce) return reduce(window, peers, std::span(&call_->root, 1), begin, end);
  if (operation == Operation::kBroadcast) return copy(window, peers, call_->root, all_, begin, end);
  for (int owner = 0; owner < members(); ++owner) {
    const int64_t from = std::max(begin, part(owner).begin), to = std::min(end, part(owner).end);
    if (from < to) piece_of_part(window, peers, owner, from, to);
  }
}

void SharedPath::piece_of_part(const Window& window, const SharedGroup::Peers& peers, int owner, int64_t begin,
                               int64_t end) {
  const std::span<const int> only(&owner, 1);
  switch (call_->operation) {
    case Operation::kReduceScatter: return reduce(window, peers, only, begin, end);
    case Operation::kAllGather: return copy(window, peers, owner, all_, begin, end);
    case Operation::kGather: return copy(window, peers, owner, std::span(&call_->root, 1), begin, end);
    case Operation::kScatter: return copy(window, peers, call_->root, only, begin, end);
    case Operation::kAllToAll:
      for (int source = 0; source < members(); ++source) copy(window, peers, source, only, begin, end);
      return;
    default: return;
  }
}

void SharedPath::reduce(const Window& window, const SharedGroup::Peers& peers, std::span<const int> receivers,
                        int64_t begin, int64_t end) {
  const int64_t in_index = index(MemberShare::kWhole, 0, window, begin);
  int outputs = 0;
  for (const int receiver : receivers)
    targets_[static_cast<size_t>(outputs++)] =
        peers.out[static_cast<size_t>(receiver)] + index(out_of(receiver), receiver, window, begin) * out_size_;
  ReduceJob job;
  job.in = peers.in.data();
  job.inputs = members();
  job.out = targets_.data();
  job.outputs = outputs;
  job.in_type = call_->dtype;
  job.out_type = call_->out_dtype;
  job.kind = call_->kind;
  job.stream = stream_;
  reduce_elements(job, in_index, 0, end - begin);
}

void SharedPath::copy(const Window& window, const SharedGroup::Peers& peers, int giver, std::span<const int> receivers,
                      int64_t begin, int64_t end) {
  const std::byte* from = peers.in[static_cast<size_t>(giver)] + index(in_of(giver), giver, window, begin) * in_size_;
  int outputs = 0;
  for (const int receiver : receivers) {
    if (out_of(receiver) == MemberShare::kNone) continue;
    targets_[static_cast<size_t>(outputs++)] =
        peers.out[static_cast<size_t>(receiver)] + index(out_of(receiver), receiver, window, begin, giver) * out_size_;
  }
  copy_to_all(from, targets_.data(), outputs, static_cast<size_t>((end - begin) * in_size_), stream_);
}

/// One window of the call through staging memory.
void SharedPath::stage(const Window& window) {
  const CollectiveCall& call = *call_;
  const int own = group_.position();
  const MemberShare in_kind = in_of(own), out_kind = out_of(own);
  const int64_t in_count = posted(in_kind, own, window), out_count = posted(out_kind, own, window);
  const size_t in_room = static_cast<size_t>(kWindowBytes);
  // Of one size for all calls but strips, so that it is taken once.
  std::byte* in_stage = group_.staging(in_room + std::max(in_room, static_cast<size_t>(out_count * out_size_)));
  std::byte* out_stage = in_stage + in_room;
  const int64_t first = std::max(part(own).begin, window.begin);
  if (in_count > 0) {
    const int64_t at = in_kind == MemberShare::kWhole ? window.begin : first - part(own).begin;
    std::memcpy(in_stage, call.in + at * in_size_, static_cast<size_t>(in_count * in_size_));
  }
  round(window, in_stage, out_stage);
  if (out_count == 0) return;
  if (out_kind == MemberShare::kStrips) {
    const int64_t count = overlap(part(own), window).count();
    for (int source = 0; source < members() && count > 0; ++source)
      std::memcpy(call.out + (source * part(own).count() + first - part(own).begin) * out_size_,
                  out_stage + source * strip(own, window) * out_size_, static_cast<size_t>(count * out_size_));
    return;
  }
  const int64_t at = out_kind == MemberShare::kWhole ? window.begin : first - part(own).begin;
  std::memcpy(call.out + at * out_size_, out_stage, static_cast<size_t>(out_count * out_size_));
}

}  // namespace

std::unique_ptr<CollectivePath> make_shared_path(SharedGroup& group) { return std::make_unique<SharedPath>(group); }

}  // namespace ramet::transport
