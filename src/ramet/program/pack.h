#pragma once

#include <set>
#include <string>

#include "ramet/program/kernel_library.h"
#include "ramet/program/stage.h"

namespace ramet::program {

/// Keeps operands that come from weights alone in the layout that their kernel reads fastest. For each node input that
/// is a weight or a derived state the library is asked for a packing; where it has one, the piece that derives it (or
/// that of the node's chunk) gets a node "pack" and a derived state u8[bytes], shared by all that want the same, and
/// the node reads that, with the attributes "L_packed" (the format), "L_shape" and "L_dtype" (what the bytes stand
/// for), L being the letter of the input (a, b, c, ...). Derived states that nobody reads any more are dropped, and so
/// is what was done for them alone.
/// Not for the weights of `without`.
void pack(Stage& stage, const KernelLibrary& library, const std::set<std::string>& without = {});

/// What is derived of these weights alone is made by each of its readers anew, just before, and kept by none. Left as
/// they are: derived states that take an exchange, or that come from weights in streaming memory.
void remake_derived(Stage& stage, const std::set<std::string>& weights);

}  // namespace ramet::program
