#pragma once

#include <span>
#include <vector>

#include "ramet/program/executable.h"

namespace ramet::program {

/// A segment's collectives between stages, in order: all their members run such segments at the same time.
std::vector<const Instruction*> stage_collectives(const Executable& executable, const Segment& segment);

/// Proves that the programs of all stages fit together, one executable a stage, in order:
///  - What one stage sends to another, the other receives: the same boundary, type and micro-batches, in the same
///    order.
///  - Collectives between stages come in the same order on all members, with the same type and kind. (Collectives
///    between replicas or tensor shards do by construction: their members run one program.)
///  - No stage waits for ever: the programs end even if a message is stored only in its planned buffers, that is, if a
///    send ends only when its receive has been started.
/// Throws Error that names both stages, and the step that each of them waits in.
void verify_match(std::span<const Executable> executables);

/// The most messages from one stage to another, over all pairs and programs, of which a side has started and not both
/// have waited for its end. A transport must hold as many, or the programs wait for ever in spite of `verify_match`.
int64_t messages_under_way(std::span<const Executable> executables);

/// Numbers supersteps over all stages. A superstep is a run of a segment; the values that it reads were made in earlier
/// supersteps, on any stage. A collective between stages is in the same superstep on all its members.
void number_supersteps(std::span<Executable> executables);

/// Every stage's update must have all of its guards (Binding::guard), so that all devices end a step together or none.
/// Throws Error that names a guard which some stage lacks.
void verify_guards(std::span<const Executable> executables);

}  // namespace ramet::program
