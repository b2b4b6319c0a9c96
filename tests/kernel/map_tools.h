#pragma once

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ramet/kernel/cpu/map.h"

namespace ramet::tests {

/// A tensor of a map program.
struct Bytes {
  TensorType type;
  std::vector<std::byte> data;
  explicit Bytes(TensorType t) : type(std::move(t)), data(static_cast<size_t>(type.bytes())) {}
  double get(int64_t i) const { return load_element(data.data(), type.dtype, i); }
  void set(int64_t i, double v) { store_element(data.data(), type.dtype, i, v); }
};

/// What a program gives; `alias_input`: the input that the first output lies over, if any.
inline std::vector<Bytes> run(const std::string& text, const Shape& space, std::vector<Bytes> inputs,
                              const std::vector<TensorType>& outputs, int threads = 1, int alias_input = -1) {
  const MapProgram program = MapProgram::parse(text);
  std::vector<TensorType> types;
  for (const Bytes& input : inputs) types.push_back(input.type);
  const cpu::MapEvaluator evaluator(program, space, types, outputs, threads);
  std::vector<std::byte> scratch(static_cast<size_t>(evaluator.scratch_bytes()) + 64, std::byte{0xff});
  void* aligned = scratch.data();
  size_t room = scratch.size();
  std::align(64, static_cast<size_t>(evaluator.scratch_bytes()), aligned, room);
  std::vector<Bytes> results;
  for (const TensorType& type : outputs) results.emplace_back(type);
  std::vector<const void*> from;
  std::vector<void*> to;
  for (Bytes& input : inputs) from.push_back(input.data.data());
  for (Bytes& result : results) to.push_back(result.data.data());
  if (alias_input >= 0) to[0] = inputs[static_cast<size_t>(alias_input)].data.data();
  ThreadTeam team(threads);
  evaluator.run(from, to, aligned, team);
  if (alias_input >= 0) results[0].data = inputs[static_cast<size_t>(alias_input)].data;
  return results;
}

/// With the same NaN for each: its sign is that of whichever operand an instruction takes it from.
inline std::vector<Bytes> with_one_nan(std::vector<Bytes> all) {
  for (Bytes& bytes : all)
    for (int64_t i = 0; i < bytes.type.elements(); ++i)
      if (std::isnan(bytes.get(i))) bytes.set(i, std::numeric_limits<double>::quiet_NaN());
  return all;
}

}  // namespace ramet::tests
