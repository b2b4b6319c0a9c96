// Collectives by messages, for members that do not share memory. Reductions go slice by slice through scratch memory of
// a fixed size: recursive halving for powers of two, else every slice goes straight to its owner; both combine along
// the same tree. Gathers double, or go round a ring where there is much. The volume per member is (n-1)/n of the data
// each way, which is the least possible.

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "ramet/transport/collectives_kernels.h"
#include "ramet/transport/collectives_path.h"

namespace ramet::transport {

namespace {

constexpr int kTag = Transport::kUserTags + 2;
// Elements of a window: all members' slices of one round of messages.
constexpr int64_t kWindow = 256 << 10;
constexpr size_t kElement = 8;  // largest that is reduced
// Slices of at least so many bytes are gathered round a ring, because a received slice is still in the caches when it
// is sent on. For smaller ones doubling is faster, with fewer messages. Both give the same bits.
constexpr size_t kRingBytes = 128 << 10;

size_t bytes_of(int64_t count, DType dtype) { return static_cast<size_t>(count) * size_of(dtype); }

class MessagePath : public CollectivePath {
 public:
  MessagePath(Transport& transport, const Group& group, bool ring)
      : transport_(transport), members_(group.members), own_(group.position_of(transport.device())), ring_(ring) {
    // Operands that come and go, and partial results.
    const int64_t area = (kWindow + size() + 64) * static_cast<int64_t>(kElement) / 64 * 64;
    scratch_bytes_ = 4 * area;
    scratch_ = transport_.allocate(static_cast<size_t>(scratch_bytes_));
    received_ = scratch_;
    sent_ = received_ + area;
    partial_ = sent_ + area;
    result_ = partial_ + area;
  }
  ~MessagePath() override { transport_.release(scratch_); }
  int64_t scratch_bytes() const override { return scratch_bytes_; }
  void run(const CollectiveCall& call) override;

 private:
  int size() const { return static_cast<int>(members_.size()); }
  bool power_of_two() const { return std::has_single_bit(static_cast<unsigned>(size())); }
  void start_send(int to, const std::byte* data, size_t bytes) {
    tickets_.push_back(transport_.start_send(members_[static_cast<size_t>(to)], kTag, data, bytes));
  }
  void start_receive(int from, std::byte* data, size_t bytes) {
    tickets_.push_back(transport_.start_receive(members_[static_cast<size_t>(from)], kTag, data, bytes));
  }
  void wait_all() {
    for (const Ticket ticket : tickets_) transport_.wait(ticket);
    tickets_.clear();
  }

  // Each leaves the partial result of this member's slice in `partial_` (or, when `finish`, its final form at `into`).
  void reduce_slices(const CollectiveCall& call, const std::vector<PartRange>& slices, std::byte* into);
  void reduce_directly(const CollectiveCall& call, const std::vector<PartRange>& slices, std::byte* into);
  void reduce_by_halving(const CollectiveCall& call, const std::vector<PartRange>& slices, std::byte* into);
  void reduce_in_ring(const CollectiveCall& call, const std::vector<PartRange>& slices, std::byte* into);
  void gather_slices(std::byte* out, const std::vector<PartRange>& slices, size_t element);

  void all_reduce(const CollectiveCall& call);
  void reduce_scatter(const CollectiveCall& call);
  void reduce(const CollectiveCall& call);
  void all_gather(const CollectiveCall& call);
  void gather(const CollectiveCall& call);
  void scatter(const CollectiveCall& call);
  void all_to_all(const CollectiveCall& call);
  void broadcast(const CollectiveCall& call);
  void barrier();

  Transport& transport_;
  std::vector<int> members_;
  int own_;
  bool ring_;
  int64_t scratch_bytes_;
  std::byte *scratch_, *received_, *sent_, *partial_, *result_;
  std::vector<Ticket> tickets_;
};

void convert(const std::byte* from, DType from_type, std::byte* to, DType to_type, int64_t count) {
  ReduceJob job;
  job.in = &from;
  job.inputs = 1;
  job.out = &to;
  job.outputs = 1;
  job.in_type = from_type;
  job.out_type = to_type;
  reduce_elements(job, 0, 0, count);
}

/// to = left joined with right
void join(const std::byte* left, const std::byte* right, DType dtype, std::byte* to, DType to_type, Reduction kind,
          int64_t count) {
  const std::byte* operands[2] = {left, right};
  ReduceJob job;
  job.in = operands;
  job.inputs = 2;
  job.out = &to;
  job.outputs = 1;
  job.in_type = dtype;
  job.out_type = to_type;
  job.kind = kind;
  reduce_elements(job, 0, 0, count);
}

void MessagePath::reduce_slices(const CollectiveCall& call, const std::vector<PartRange>& slices, std::byte* into) {
  if (ring_) return reduce_in_ring(call, slices, into);
  if (power_of_two()) return reduce_by_halving(call, slices, into);
  reduce_directly(call, slices, into);
}

void MessagePath::reduce_directly(const CollectiveCall& call, const std::vector<PartRange>& slices, std::byte* into) {
  const PartRange own = slices[static_cast<size_t>(own_)];
  const auto element = static_cast<int64_t>(size_of(call.dtype));
  std::vector<const std::byte*> operands(members_.size());
  std::byte* room = received_;
  for (int from = 0; from < size(); ++from) {
    operands[static_cast<size_t>(from)] = from == own_ ? call.in + own.begin * element : room;
    if (from == own_ || own.count() == 0) continue;
    start_receive(from, room, bytes_of(own.count(), call.dtype));
    room += own.count() * element;
  }
  for (int step = 1; step < size(); ++step) {  // not all to the same member at a time
    const int to = (own_ + step) % size();
    const PartRange slice = slices[static_cast<size_t>(to)];
    if (slice.count() > 0) start_send(to, call.in + slice.begin * element, bytes_of(slice.count(), call.dtype));
  }
  wait_all();
  ReduceJob job;
  job.in = operands.data();
  job.inputs = size();
  job.out = &into;
  job.outputs = 1;
  job.in_type = call.dtype;
  job.out_type = call.out_dtype;
  job.kind = call.kind;
  reduce_elements(job, 0, 0, own.count());
}

/// Neighbours first, as the tree joins them: after step b a member has the sums of 2^(b+1) members for the slices whose
/// numbers end in the same b+1 bits as its own.
void MessagePath::reduce_by_halving(const CollectiveCall& call, const std::vector<PartRange>& slices, std::byte* into) {
  const DType partial = partial_type(call.dtype);
  DType held = call.dtype;
  const auto count_of = [&](int slice) { return slices[static_cast<size_t>(slice)].count(); };
  std::vector<const std::byte*> at(members_.size());
  for (int slice = 0; slice < size(); ++slice)
    at[static_cast<size_t>(slice)] = call.in + bytes_of(slices[static_cast<size_t>(slice)].begin, call.dtype);
  for (int bit = 1; bit < size(); bit *= 2) {
    const int partner = own_ ^ bit;
    const bool last = bit * 2 == size();
    std::byte *leaving = sent_, *coming = received_;
    for (int slice = 0; slice < size(); ++slice) {
      if ((slice ^ own_) % bit != 0) continue;
      const size_t bytes = bytes_of(count_of(slice), held);
      if ((slice ^ own_) & bit) {
        std::memcpy(leaving, at[static_cast<size_t>(slice)], bytes);
        leaving += bytes;
      } else {
        coming += bytes;
      }
    }
    start_receive(partner, received_, static_cast<size_t>(coming - received_));
    start_send(partner, sent_, static_cast<size_t>(leaving - sent_));
    wait_all();
    coming = received_;
    std::byte* result = partial_;
    for (int slice = 0; slice < size(); ++slice) {
      if ((slice ^ own_) % (bit * 2) != 0) continue;
      const std::byte* mine = at[static_cast<size_t>(slice)];
      const bool lower = own_ < partner;
      // The kept slices move to the front of `partial_`, never past bytes that are still to be read.
      std::byte* to = last ? into : result;
      join(lower ? mine : coming, lower ? coming : mine, held, to, last ? call.out_dtype : partial, call.kind,
           count_of(slice));
      at[static_cast<size_t>(slice)] = to;
      coming += bytes_of(count_of(slice), held);
      result += bytes_of(count_of(slice), partial);
    }
    held = partial;
  }
}

/// The partial result of slice s starts at member s + 1 and goes round to s.
void MessagePath::reduce_in_ring(const CollectiveCall& call, const std::vector<PartRange>& slices, std::byte* into) {
  const DType partial = partial_type(call.dtype);
  const int n = size(), next = (own_ + 1) % n, before = (own_ + n - 1) % n;
  const auto slice_at = [&](int slice) { return slices[static_cast<size_t>(slice)]; };
  const auto mine = [&](int slice) { return call.in + bytes_of(slice_at(slice).begin, call.dtype); };
  std::byte *leaving = sent_, *coming = received_;
  convert(mine(before), call.dtype, leaving, partial, slice_at(before).count());
  for (int step = 1; step < n; ++step) {
    const int gone = (own_ - step + 2 * n) % n, come = (own_ - step - 1 + 2 * n) % n;
    start_receive(before, coming, bytes_of(slice_at(come).count(), partial));
    start_send(next, leaving, bytes_of(slice_at(gone).count(), partial));
    wait_all();
    const int64_t count = slice_at(come).count();
    const std::byte* own = mine(come);
    if (partial != call.dtype) {
      convert(own, call.dtype, partial_, partial, count);
      own = partial_;
    }
    const bool last = step == n - 1;
    join(coming, own, partial, last ? into : coming, last ? call.out_dtype : partial, call.kind, count);
    std::swap(leaving, coming);
  }
}

/// Slices of `out`, of which each member has its own, become whole everywhere.
void MessagePath::gather_slices(std::byte* out, const std::vector<PartRange>& slices, size_t element) {
  const auto at = [&](int slice) {
    return out + static_cast<size_t>(slices[static_cast<size_t>(slice)].begin) * element;
  };
  const auto bytes = [&](int first, int last) {
    size_t sum = 0;
    for (int slice = first; slice < last; ++slice)
      sum += static_cast<size_t>(slices[static_cast<size_t>(slice)].count()) * element;
    return sum;
  };
  bool adjacent = true;
  for (int slice = 1; slice < size(); ++slice)
    adjacent &= slices[static_cast<size_t>(slice)].begin == slices[static_cast<size_t>(slice - 1)].end;
  const bool ring = ring_ || bytes(0, size()) >= kRingBytes * members_.size();
  if (!ring && power_of_two() && adjacent) {
    for (int block = 1; block < size(); block *= 2) {
      const int mine = own_ / block * block, other = mine ^ block;
      start_receive(own_ ^ block, at(other), bytes(other, other + block));
      start_send(own_ ^ block, at(mine), bytes(mine, mine + block));
      wait_all();
    }
    return;
  }
  if (ring) {
    const int n = size();
    for (int step = 0; step < n - 1; ++step) {
      const int gone = (own_ - step + n) % n, come = (own_ - step - 1 + n) % n;
      start_receive((own_ + n - 1) % n, at(come), bytes(come, come + 1));
      start_send((own_ + 1) % n, at(gone), bytes(gone, gone + 1));
      wait_all();
    }
    return;
  }
  for (int step = 1; step < size(); ++step) {
    const int from = (own_ + size() - step) % size(), to = (own_ + step) % size();
    start_receive(from, at(from), bytes(from, from + 1));
    start_send(to, at(own_), bytes(own_, own_ + 1));
  }
  wait_all();
}

void MessagePath::all_reduce(const CollectiveCall& call) {
  const size_t element = size_of(call.out_dtype);
  for (int64_t begin = 0; begin < call.count; begin += kWindow) {
    std::vector<PartRange> slices = equal_parts(std::min(kWindow, call.count - begin), size());
    for (PartRange& slice : slices) slice = {slice.begin + begin, slice.end + begin};
    reduce_slices(call, slices, call.out + static_cast<size_t>(slices[static_cast<size_t>(own_)].begin) * element);
    gather_slices(call.out, slices, element);
  }
}

/// As many rounds as the longest part has windows; each takes the next stretch of every part.
void MessagePath::reduce_scatter(const CollectiveCall& call) {
  int64_t longest = 0;
  for (const PartRange& part : call.parts) longest = std::max(longest, part.count());
  const int64_t stretch = std::max<int64_t>(kWindow / size(), 1);
  for (int64_t done = 0; done < longest; done += stretch) {
    std::vector<PartRange> slices;
    for (const PartRange& part : call.parts)
      slices.push_back({std::min(part.end, part.begin + done), std::min(part.end, part.begin + done + stretch)});
    const PartRange own = slices[static_cast<size_t>(own_)];
    const int64_t at = own.begin - call.parts[static_cast<size_t>(own_)].begin;
    reduce_slices(call, slices, call.out + static_cast<size_t>(at) * size_of(call.out_dtype));
  }
}

void MessagePath::reduce(const CollectiveCall& call) {
  const size_t element = size_of(call.out_dtype);
  for (int64_t begin = 0; begin < call.count; begin += kWindow) {
    std::vector<PartRange> slices = equal_parts(std::min(kWindow, call.count - begin), size());
    for (PartRange& slice : slices) slice = {slice.begin + begin, slice.end + begin};
    const PartRange own = slices[static_cast<size_t>(own_)];
    const auto at = [&](const PartRange& slice) { return call.out + static_cast<size_t>(slice.begin) * element; };
    const bool root = own_ == call.root;
    reduce_slices(call, slices, root ? at(own) : result_);
    if (!root) {
      start_send(call.root, result_, bytes_of(own.count(), call.out_dtype));
    } else {
      for (int from = 0; from < size(); ++from)
        if (from != own_)
          start_receive(from, at(slices[static_cast<size_t>(from)]),
                        bytes_of(slices[static_cast<size_t>(from)].count(), call.out_dtype));
    }
    wait_all();
  }
}

void MessagePath::all_gather(const CollectiveCall& call) {
  const size_t element = size_of(call.dtype);
  const PartRange own = call.parts[static_cast<size_t>(own_)];
  std::byte* mine = call.out + static_cast<size_t>(own.begin) * element;
  if (mine != call.in && own.count() > 0) std::memcpy(mine, call.in, bytes_of(own.count(), call.dtype));
  gather_slices(call.out, {call.parts.begin(), call.parts.end()}, element);
}

void MessagePath::gather(const CollectiveCall& call) {
  const size_t element = size_of(call.dtype);
  const auto bytes = [&](int member) { return bytes_of(call.parts[static_cast<size_t>(member)].count(), call.dtype); };
  if (own_ != call.root) {
    start_send(call.root, call.in, bytes(own_));
    return wait_all();
  }
  for (int from = 0; from < size(); ++from) {
    std::byte* to = call.out + static_cast<size_t>(call.parts[static_cast<size_t>(from)].begin) * element;
    if (from != own_)
      start_receive(from, to, bytes(from));
    else if (to != call.in && bytes(from) > 0)
      std::memcpy(to, call.in, bytes(from));
  }
  wait_all();
}

void MessagePath::scatter(const CollectiveCall& call) {
  const size_t element = size_of(call.dtype);
  const auto bytes = [&](int member) { return bytes_of(call.parts[static_cast<size_t>(member)].count(), call.dtype); };
  if (own_ != call.root) {
    start_receive(call.root, call.out, bytes(own_));
    return wait_all();
  }
  for (int to = 0; to < size(); ++to) {
    const std::byte* from = call.in + static_cast<size_t>(call.parts[static_cast<size_t>(to)].begin) * element;
    if (to != own_)
      start_send(to, from, bytes(to));
    else if (from != call.out && bytes(to) > 0)
      std::memcpy(call.out, from, bytes(to));
  }
  wait_all();
}

void MessagePath::all_to_all(const CollectiveCall& call) {
  const size_t element = size_of(call.dtype);
  const size_t own_bytes = bytes_of(call.parts[static_cast<size_t>(own_)].count(), call.dtype);
  const auto strip = [&](int from) { return call.out + static_cast<size_t>(from) * own_bytes; };
  const auto piece = [&](int to) {
    return call.in + static_cast<size_t>(call.parts[static_cast<size_t>(to)].begin) * element;
  };
  if (own_bytes > 0) std::memcpy(strip(own_), piece(own_), own_bytes);
  for (int step = 1; step < size(); ++step) {
    const int from = (own_ + size() - step) % size(), to = (own_ + step) % size();
    start_receive(from, strip(from), own_bytes);
    start_send(to, piece(to), bytes_of(call.parts[static_cast<size_t>(to)].count(), call.dtype));
  }
  wait_all();
}

/// A binomial tree over positions counted from the root.
void MessagePath::broadcast(const CollectiveCall& call) {
  const size_t bytes = bytes_of(call.count, call.dtype);
  const int n = size(), own = (own_ - call.root + n) % n;
  int bit = 1;
  while (bit < n && (own & bit) == 0) bit *= 2;
  if (own != 0) {
    start_receive((own - bit + call.root) % n, call.out, bytes);
    wait_all();
  }
  for (bit /= 2; bit > 0; bit /= 2)
    if (own + bit < n) start_send((own + bit + call.root) % n, call.out, bytes);
  wait_all();
}

void MessagePath::barrier() {
  for (int distance = 1; distance < size(); distance *= 2) {
    start_receive((own_ + size() - distance) % size(), nullptr, 0);
    start_send((own_ + distance) % size(), nullptr, 0);
    wait_all();
  }
}

void MessagePath::run(const CollectiveCall& call) {
  switch (call.operation) {
    case Operation::kAllReduce: return all_reduce(call);
    case Operation::kReduceScatter: return reduce_scatter(call);
    case Operation::kReduce: return reduce(call);
    case Operation::kAllGather: return all_gather(call);
    case Operation::kGather: return gather(call);
    case Operation::kScatter: return scatter(call);
    case Operation::kAllToAll: return all_to_all(call);
    case Operation::kBroadcast: return broadcast(call);
    case Operation::kBarrier: return barrier();
  }
}

}  // namespace

std::unique_ptr<CollectivePath> make_message_path(Transport& transport, const Group& group, bool ring) {
  return std::make_unique<MessagePath>(transport, group, ring);
}

}  // namespace ramet::transport
