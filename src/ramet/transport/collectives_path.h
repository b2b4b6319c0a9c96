#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ramet/transport/collectives.h"
#include "ramet/transport/transport_shared.h"

namespace ramet::transport {

/// One call of a collective, as all its ways of being done take it.
struct CollectiveCall {
  Operation operation = Operation::kBarrier;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  int64_t count = 0;  ///< of all parts
  DType dtype = DType::kF32;
  /// Type of `out`; the partial type of `dtype` where a reduction goes on elsewhere, or `dtype` of it where it ends.
  DType out_dtype = DType::kF32;
  Reduction kind = Reduction::kSum;
  int root = -1;
  /// The elements that belong to each position, as ranges of the whole; ascending, perhaps with gaps.
  std::span<const PartRange> parts;
};

/// A way to carry out collectives among members of a group, of which this device is `position`.
class CollectivePath {
 public:
  virtual ~CollectivePath() = default;
  virtual void run(const CollectiveCall& call) = 0;
  virtual int64_t scratch_bytes() const { return 0; }
};

/// All members share memory.
std::unique_ptr<CollectivePath> make_shared_path(SharedGroup& group);
/// By messages; along the tree, or in a ring.
std::unique_ptr<CollectivePath> make_message_path(Transport& transport, const Group& group, bool ring);
/// Within hosts of `local` adjacent positions each by shared memory, between them by messages.
std::unique_ptr<CollectivePath> make_hierarchical_path(Transport& transport, const Group& group, int local, bool ring);

/// The part of a buffer that a member of a collective has or gets.
enum class MemberShare : uint8_t {
  kNone,
  kWhole,   ///< all elements
  kPart,    ///< its own part
  kStrips,  ///< its own part from each member, one after the other
};
MemberShare in_span(Operation operation, bool is_root);
MemberShare out_span(Operation operation, bool is_root);

/// Equal parts of `count` for `parts` members.
std::vector<PartRange> equal_parts(int64_t count, int parts);

}  // namespace ramet::transport
