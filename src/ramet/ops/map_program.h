#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/shape.h"

namespace ramet {

/// One operation of a map program, in f32 arithmetic (i32/i64/bool for integer steps). The one table of them
/// (name, arity, scalar meaning) is `map_op_table()`; every backend evaluates the same list.
struct MapOpInfo {
  std::string_view name;  ///< "add", "gelu", "dropout", ...
  int arity;
  bool takes_parameter;   ///< has one immediate float (leaky slope, dropout rate, power, clamp bound)
  /// The meaning, in double; the oracle of every backend. `parameter` is the immediate. Not for "dropout",
  /// which draws bits (see map_program.cc).
  double (*scalar)(double a, double b, double c, double parameter);
};
const std::vector<MapOpInfo>& map_op_table();
/// Index in the table; throws Error on an unknown name.
int map_op_index(std::string_view name);

/// A small expression program over one iteration space: what a chain of element-wise ops became (DESIGN, fusion).
/// Values are numbered: inputs first, then steps. All arithmetic is f32 (floating) whatever the inputs' and
/// outputs' types: inputs are widened on load, and rounded once at each output, or where a `round_bf16`/`round_f16`
/// step says so. Inputs broadcast to the iteration space by NumPy's rule.
/// A program may end in one reduction of a value over trailing dimensions (kept as extent 1 or dropped).
/// Text form (an attribute of node `map`): "2:%2=add(%0,%1);%3=gelu(%2);%4=scale[0.5](%3)->%3,%4" : number of inputs,
/// steps, outputs.
struct MapProgram {
  struct Step {
    int op = 0;                   ///< index in map_op_table()
    std::vector<int> operands;    ///< value numbers
    double parameter = 0;
    friend bool operator==(const Step&, const Step&) = default;
  };
  int inputs = 0;
  std::vector<Step> steps;
  std::vector<int> outputs;       ///< value numbers

  static MapProgram parse(std::string_view text);
  std::string text() const;
  friend bool operator==(const MapProgram&, const MapProgram&) = default;
};

}  // namespace ramet
