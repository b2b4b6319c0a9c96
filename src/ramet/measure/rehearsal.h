#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ramet/kernel/kernel.h"
#include "ramet/machine/machine.h"
#include "ramet/program/executable.h"
#include "ramet/runtime/engine.h"

namespace ramet::measure {

/// The steps of a program that run segments, of those that run the same one the first.
std::vector<ProgramStep> distinct_runs(const std::vector<ProgramStep>& program);

/// Whether a measurement must write the first bytes of a state: constants and patterns are often indices, which must be
/// those of something.
bool has_known_bytes(const StatePlace& state);
/// These bytes, of the shard of the device at `position`.
std::vector<std::byte> known_bytes(const StatePlace& state, const Mesh::Position& position);

/// Runs the instructions of the stages' training steps on `beside` + 1 processors (or as many groups of threads), each
/// device on an arena of its own, and notes in the machine the seconds of each call, with the caches as the work before
/// left them, and the devices' jitter. All devices of the layout are rehearsed, or one of each stage when there are too
/// many. When there are more devices than processors, they take turns where they would wait for each other. Exchanges
/// are left out, and so are all but one of several micro-batches that do the same. `between_processes`: arenas are
/// memory that processes share, as those of ranks are, whose pages may be smaller. Repeats the step until
/// `budget_seconds` are spent, at least twice. Returns false, and measures nothing, when one round would take longer
/// than two budgets or memory for it is short. A data input gets the tensor of its name and type in `batch`: one
/// micro-batch of real samples, so that lookups and scatters touch the addresses that training touches. Other inputs
/// are filled with ones.
bool rehearse(Machine& machine, std::span<const Executable> stages, const Backend& backend, double budget_seconds,
              int beside, bool between_processes = false, std::span<const TensorView> batch = {});

}  // namespace ramet::measure
