#pragma once

#include <cstdint>

#include "ramet/base/house.h"

namespace ramet::machine {

/// A device made of tiles: small processors, each with its own memory, which compute and then exchange (an IPU). The
/// defaults are those of the second generation, GC200 and Bow, which differ in their clocks; docs/tiles.md names the source
/// of each.
struct TileFigures {
  int64_t tiles = 1472;
  int64_t memory = 638976;  ///< of one tile
  double clock = 0;         ///< cycles a second
  int workers = 6;          ///< hardware threads of a tile, of which each has every sixth cycle

  // Matrix units: a block of weights is loaded, then rows pass, each worker taking its share of them.
  double half_macs = 64;          ///< multiply-adds a cycle and tile, sums in 16 bits
  double half_float_macs = 32;    ///< of 16-bit operands, sums in f32
  double float_macs = 16;         ///< of f32
  int half_sum_bits = 16;         ///< of the sums of 16-bit operands: 16 or 32
  int64_t block_outputs = 16;     ///< columns of a block of weights
  int64_t block_bytes = 32;       ///< of one column of it: 16 inputs of 16 bits, 8 of f32
  double coefficient_bytes = 16;  ///< a cycle, of loading a block
  double product_cycles = 108;    ///< before the first block: call, vertex state
  double input_cycles = 15;       ///< for each group of inputs
  double output_cycles = 19;      ///< for each group of outputs
  double block_cycles = 7;        ///< for each block, beside its loading
  double worker_cycles = 25;      ///< for each block, of every worker before its first row
  double least_rows = 3;          ///< a worker takes as long as for so many
  double float_sum_cycles = 1;    ///< for each row whose sums are f32, beside the multiply-adds
  double temporary_share = 0.6;   ///< of the memory that one product may fill

  // Everything else.
  double data_path_bytes = 8;        ///< a vector instruction loads or stores
  double copy_bytes = 8;             ///< a cycle, of arranging exchanged data
  double element_efficiency = 0.55;  ///< share of vector instructions that loops over elements reach
  double vertex_cycles = 150;        ///< to start all workers on a loop over elements, and to end it

  // Exchange.
  double exchange_bytes = 4;  ///< a cycle that a tile receives
  int exchange_pair = 2;      ///< neighbours that receive the same bytes at twice the rate
  double phase_cycles = 600;  ///< of an exchange and the synchronisation before it
  double sync_cycles = 150;   ///< between two computations without an exchange

  // The memory of every tile that a program takes beside its tensors.
  int64_t runtime_bytes = 16384;  ///< stacks, boot, host exchange
  int64_t vertex_bytes = 1024;    ///< code of one kind of vertex
  int64_t call_bytes = 32;        ///< control code and vertex state of one instruction of the program
  int64_t message_bytes = 8;      ///< exchange code for the data of one other tile

  friend bool operator==(const TileFigures&, const TileFigures&) = default;
};

}  // namespace ramet::machine
