#pragma once

#include <span>
#include <vector>

#include "ramet/program/executable.h"

namespace ramet::program {

/// A segment's collectives between stages, in order: all their members run such segments at the same time.
std::vector<const Instruction*> stage_collectives(const Executable& executable, const Segment& segment);

/// Proves that the programs of all stages fit together, one executable a stage, in order:
///  - what one stage sends to another, that one receives: the same boundary, type and micro-batches, in the same order
///  - collectives between stages stand in the same order on all members, with the same type and kind (those between
///  replicas or
///    tensor shards do by construction: their members run one program)
///  - nothing waits for ever: the programs come to their ends though no message is kept anywhere but in its planned
///  buffers, that is,
///    though a send only ends when its receive has been started
/// Throws Error that names both sides, and what each of them waits for.
void verify_match(std::span<const Executable> executables);

/// Numbers supersteps over all stages: one is a run of a segment; what it reads was made in an earlier one, wherever; a
/// collective between stages falls into one superstep of all its members.
void number_supersteps(std::span<Executable> executables);

/// Every stage's update must have all of its guards (Binding::guard), so that all devices end a step together or none.
/// Throws Error that names the one that some lack.
void verify_guards(std::span<const Executable> executables);

}  // namespace ramet::program
