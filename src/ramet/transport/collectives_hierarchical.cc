// Collectives of members on several hosts with `local` adjacent positions each: the members of a host meet in shared
// memory, and members of the same index on all hosts by messages, so that each host's border is crossed once. Exact
// where a host's members are a subtree of the tree of sums: partial results cross hosts in their own type and are
// rounded once, at the end.

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/transport/collectives_kernels.h"
#include "ramet/transport/collectives_path.h"

namespace ramet::transport {

namespace {

constexpr int64_t kWindow = 1 << 20;  // elements that are between hosts at a time

class HierarchicalPath : public CollectivePath {
 public:
  HierarchicalPath(Transport& transport, const Group& group, int local, bool ring)
      : transport_(transport),
        local_(local),
        hosts_(group.size() / local),
        position_(group.position_of(transport.device())),
        host_(position_ / local),
        index_(position_ % local) {
    Group across, within;
    for (int i = 0; i < local_; ++i) within.members.push_back(group.members[static_cast<size_t>(host_ * local_ + i)]);
    for (int i = 0; i < hosts_; ++i) across.members.push_back(group.members[static_cast<size_t>(i * local_ + index_)]);
    if (hosts_ > 1) across_ = make_message_path(transport, across, ring);
    flat_ = make_message_path(transport, group, ring);
    if (local_ > 1) {
      SharedGroup* shared = transport.shared_group(within.members);
      if (!shared) internal_error("HierarchicalPath", "members of one host do not share memory");
      within_ = make_shared_path(*shared);
    }
    // A window's partial results: of all elements (reduce), or of this member's share of them.
    partial_bytes_ = (kWindow + group.size()) * 8;
    partial_ = transport_.allocate(static_cast<size_t>(partial_bytes_));
  }
  ~HierarchicalPath() override { transport_.release(partial_); }

  int64_t scratch_bytes() const override {
    return partial_bytes_ + flat_->scratch_bytes() + (across_ ? across_->scratch_bytes() : 0);
  }

  void run(const CollectiveCall& call) override {
    switch (call.operation) {
      case Operation::kAllReduce: return all_reduce(call);
      case Operation::kReduceScatter: return reduce_scatter(call);
      case Operation::kReduce: return reduce(call);
      case Operation::kAllGather: return all_gather(call);
      case Operation::kBroadcast: return broadcast(call);
      case Operation::kBarrier:
        if (within_) within_->run(call);
        if (across_) across_->run(call);
        return;
      // Each byte of these takes one route, whatever hosts it crosses.
      case Operation::kGather:
      case Operation::kScatter:
      case Operation::kAllToAll: return flat_->run(call);
    }
  }

 private:
  /// The call `operation` within the host or across hosts, on `count` elements, with parts of its own.
  static void part_call(CollectivePath* path, const CollectiveCall& like, Operation operation, const std::byte* in,
                        std::byte* out, DType in_type, DType out_type, int64_t count,
                        const std::vector<PartRange>& parts, int root = -1) {
    CollectiveCall call = like;
    call.operation = operation;
    call.in = in;
    call.out = out;
    call.dtype = in_type;
    call.out_dtype = out_type;
    call.count = count;
    call.parts = parts;
    call.root = root;
    path->run(call);
  }
  /// Reduces within the host `in`'s elements so that this member has its part of them in `partial_`; alone on a host,
  /// it converts.
  void reduce_within(const CollectiveCall& call, const std::byte* in, int64_t count,
                     const std::vector<PartRange>& parts, std::byte* into) {
    const DType partial = partial_type(call.dtype);
    if (within_)
      return part_call(within_.get(), call, Operation::kReduceScatter, in, into, call.dtype, partial, count, parts);
    ReduceJob job;
    job.in = &in;
    job.inputs = 1;
    job.out = &into;
    job.outputs = 1;
    job.in_type = call.dtype;
    job.out_type = partial;
    reduce_elements(job, 0, 0, count);
  }

  void all_reduce(const CollectiveCall& call);
  void reduce_scatter(const CollectiveCall& call);
  void reduce(const CollectiveCall& call);
  void all_gather(const CollectiveCall& call);
  void broadcast(const CollectiveCall& call);

  Transport& transport_;
  int local_, hosts_, position_, host_, index_;
  std::unique_ptr<CollectivePath> within_, across_, flat_;
  int64_t partial_bytes_;
  std::byte* partial_;
};

void HierarchicalPath::all_reduce(const CollectiveCall& call) {
  const DType partial = partial_type(call.dtype);
  const size_t in_size = size_of(call.dtype), out_size = size_of(call.out_dtype);
  for (int64_t begin = 0; begin < call.count; begin += kWindow) {
    const int64_t count = std::min(kWindow, call.count - begin);
    const std::vector<PartRange> parts = equal_parts(count, local_);
    const PartRange own = parts[static_cast<size_t>(index_)];
    std::byte* out = call.out + static_cast<size_t>(begin) * out_size;
    std::byte* mine = out + static_cast<size_t>(own.begin) * out_size;
    reduce_within(call, call.in + static_cast<size_t>(begin) * in_size, count, parts, partial_);
    const std::vector<PartRange> shares = equal_parts(own.count(), hosts_);
    part_call(across_.get(), call, Operation::kAllReduce, partial_, mine, partial, call.out_dtype, own.count(), shares);
    if (within_)
      part_call(within_.get(), call, Operation::kAllGather, mine, out, call.out_dtype, call.out_dtype, count, parts);
  }
}

/// Part h * local + i belongs to member i of host h. In windows over the parts: within each host, member i first gets
/// the host's partial results of the parts of all members i; those then go across.
void HierarchicalPath::reduce_scatter(const CollectiveCall& call) {
  const DType partial = partial_type(call.dtype);
  const size_t in_size = size_of(call.dtype), out_size = size_of(call.out_dtype), partial_size = size_of(partial);
  const int members = local_ * hosts_;
  int64_t longest = 0;
  for (const PartRange& part : call.parts) longest = std::max(longest, part.count());
  const int64_t stretch = std::max<int64_t>(kWindow / members, 1);
  for (int64_t done = 0; done < longest; done += stretch) {
    std::vector<PartRange> shares;  // of each host, in this member's partial results
    int64_t held = 0;
    for (int host = 0; host < hosts_; ++host) {
      std::vector<PartRange> parts;
      const int64_t base = call.parts[static_cast<size_t>(host * local_)].begin;
      for (int i = 0; i < local_; ++i) {
        const PartRange part = call.parts[static_cast<size_t>(host * local_ + i)];
        parts.push_back(
            {std::min(part.end, part.begin + done) - base, std::min(part.end, part.begin + done + stretch) - base});
      }
      const int64_t count = parts[static_cast<size_t>(index_)].count();
      const std::byte* in = call.in + static_cast<size_t>(base) * in_size;
      // Alone on its host a member converts just the stretch.
      if (!within_) in += static_cast<size_t>(parts[0].begin) * in_size;
      reduce_within(call, in, within_ ? parts.back().end : count, parts,
                    partial_ + static_cast<size_t>(held) * partial_size);
      shares.push_back({held, held + count});
      held += count;
    }
    const PartRange own = call.parts[static_cast<size_t>(position_)];
    const int64_t at = std::min(own.end, own.begin + done) - own.begin;
    part_call(across_.get(), call, Operation::kReduceScatter, partial_, call.out + static_cast<size_t>(at) * out_size,
              partial, call.out_dtype, held, shares);
  }
}

void HierarchicalPath::reduce(const CollectiveCall& call) {
  const DType partial = partial_type(call.dtype);
  const size_t in_size = size_of(call.dtype), out_size = size_of(call.out_dtype);
  const int root_host = call.root / local_, root_index = call.root % local_;
  const std::vector<PartRange> none(static_cast<size_t>(std::max(local_, hosts_)));
  for (int64_t begin = 0; begin < call.count; begin += kWindow) {
    const int64_t count = std::min(kWindow, call.count - begin);
    const std::byte* in = call.in + static_cast<size_t>(begin) * in_size;
    if (within_)
      part_call(within_.get(), call, Operation::kReduce, in, partial_, call.dtype, partial, count, none, root_index);
    else
      reduce_within(call, in, count, none, partial_);
    if (index_ != root_index) continue;
    std::byte* out = position_ == call.root ? call.out + static_cast<size_t>(begin) * out_size : nullptr;
    part_call(across_.get(), call, Operation::kReduce, partial_, out, partial, call.out_dtype, count, none, root_host);
  }
}

void HierarchicalPath::all_gather(const CollectiveCall& call) {
  const size_t size = size_of(call.dtype);
  std::vector<PartRange> mine;
  for (int host = 0; host < hosts_; ++host) mine.push_back(call.parts[static_cast<size_t>(host * local_ + index_)]);
  part_call(across_.get(), call, Operation::kAllGather, call.in, call.out, call.dtype, call.dtype, call.count, mine);
  for (int host = 0; within_ && host < hosts_; ++host) {
    const int64_t base = call.parts[static_cast<size_t>(host * local_)].begin;
    std::vector<PartRange> parts;
    for (int i = 0; i < local_; ++i) {
      const PartRange part = call.parts[static_cast<size_t>(host * local_ + i)];
      parts.push_back({part.begin - base, part.end - base});
    }
    std::byte* out = call.out + static_cast<size_t>(base) * size;
    part_call(within_.get(), call, Operation::kAllGather,
              out + static_cast<size_t>(parts[static_cast<size_t>(index_)].begin) * size, out, call.dtype, call.dtype,
              parts.back().end, parts);
  }
}

void HierarchicalPath::broadcast(const CollectiveCall& call) {
  const int root_host = call.root / local_, root_index = call.root % local_;
  const std::vector<PartRange> none(static_cast<size_t>(std::max(local_, hosts_)));
  if (index_ == root_index)
    part_call(across_.get(), call, Operation::kBroadcast, call.in, call.out, call.dtype, call.dtype, call.count, none,
              root_host);
  if (within_)
    part_call(within_.get(), call, Operation::kBroadcast, call.in, call.out, call.dtype, call.dtype, call.count, none,
              root_index);
}

}  // namespace

std::unique_ptr<CollectivePath> make_hierarchical_path(Transport& transport, const Group& group, int local, bool ring) {
  return std::make_unique<HierarchicalPath>(transport, group, local, ring);
}

}  // namespace ramet::transport
