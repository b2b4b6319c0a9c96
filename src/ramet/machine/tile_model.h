#pragma once

#include <string>

#include "ramet/machine/tile_matmul.h"

namespace ramet::machine {

/// Cycles of a node on a device of tiles, apart from collectives (network.h). Its matrix products run as
/// choose_product says, one after another; the rest consists of loops over elements, spread evenly over all tiles. The
/// node's op decides the kind of loop: where a dimension is reduced or must stay whole, tiles exchange their partial
/// results; where nothing is computed, elements move.
TileCycles tile_cycles(const TileFigures& figures, const NodeSignature& node, const Cost& cost);

/// Names a kernel by the share of memory that its products may fill: "tiles 60%".
std::string tile_kernel_name(const TileFigures& figures);
/// The figures with that share; unchanged for other kernels' names.
TileFigures figures_of_kernel(const TileFigures& figures, const std::string& kernel);

/// Cycles of adding or copying `bytes` that lie spread over all tiles (`passes`: reads and writes of them).
TileCycles tile_pass_cycles(const TileFigures& figures, double bytes, double passes);

/// Bytes that the fullest tile holds of a tensor of `bytes`, of which `share` of the tiles hold a part. Grains of a
/// vector are never cut.
int64_t fullest_tile_bytes(const TileFigures& figures, int64_t bytes, double share = 1);

/// Bytes of every tile that the code, the control and the exchange of a program take.
int64_t tile_program_bytes(const TileFigures& figures, int64_t kinds, int64_t instructions, double messages);

}  // namespace ramet::machine
