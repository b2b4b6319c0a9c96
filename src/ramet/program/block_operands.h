#pragma once

#include <set>
#include <string>

#include "ramet/program/kernel_library.h"
#include "ramet/program/stage.h"

namespace ramet::program {

/// Keeps operands that come from weights alone in the blocked layout that their kernel reads fastest. For each node
/// input that is a weight or a derived state, the pass asks the library for a blocked layout. If there is one, the
/// piece that derives the operand (or that of the node's part) gets a node "block" and a derived state u8[bytes], which
/// all readers of the same layout share. The node then reads that state and gets the attributes "L_blocked" (the
/// format), "L_shape" and "L_dtype" (shape and type of the operand), where L is the letter of the input (a, b, c, ...).
/// Derived states without readers are dropped, and so are the nodes that only they needed. The weights of `without`
/// have no such states; a cast of one of them that only such operands read becomes a node "block" for each of them, so
/// that weights are rounded as they are blocked.
void block_operands(Stage& stage, const KernelLibrary& library, const std::set<std::string>& without = {});

/// Lets each reader of a state that is derived from these weights alone derive it anew, just before it reads it, so
/// that no such state is kept. States stay derived where that takes an exchange, or where the weights are in streaming
/// memory.
void remake_derived(Stage& stage, const std::set<std::string>& weights);

}  // namespace ramet::program
