#pragma once

#include <span>
#include <vector>

#include "ramet/kernel/kernel.h"
#include "ramet/machine/machine.h"
#include "ramet/program/executable.h"
#include "ramet/runtime/engine.h"

namespace ramet::measure {

/// The steps of a program that run segments, of those that run the same one the first.
std::vector<ProgramStep> distinct_runs(const std::vector<ProgramStep>& program);

/// Runs the instructions of the stages' training steps on `beside` + 1 processors (or as many groups of threads), each
/// device on an arena of its own, and notes in the machine what each task takes there, with the caches as the work
/// before left them, and the devices' jitter. All devices of the layout are rehearsed, or one of each stage where they
/// are too many; where they are more than the processors, they take turns where they would wait for each other.
/// Exchanges are left out, and of micro-batches that do the same all but one. `between_processes`: arenas are memory
/// that processes share, as those of ranks are, whose pages may be smaller. Goes round until `budget_seconds` are
/// spent, twice at least. Returns false, and measures nothing, where one round would take longer than two budgets, or
/// memory for it lacks. Data inputs are fed what `batch` has of their names and types: one micro-batch of real samples,
/// so that lookups and scatters go where those of training go. Others are fed ones.
bool rehearse(Machine& machine, std::span<const Executable> stages, const Backend& backend, double budget_seconds,
              int beside, bool between_processes = false, std::span<const TensorView> batch = {});

}  // namespace ramet::measure
