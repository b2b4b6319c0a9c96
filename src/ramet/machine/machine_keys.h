#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ramet/machine/machine.h"

namespace ramet::machine {

/// One key of a table in machine files: reading, writing, checking and documentation all go by it. Whole numbers of
/// 64 bits are bytes, and may be written as sizes ("624 KiB").
template <typename Struct>
struct FigureKey {
  const char* name;
  std::variant<double Struct::*, int64_t Struct::*, int Struct::*, std::string Struct::*> field;
  double low, high;  ///< of figures
  bool required;
  const char* doc;
};

template <typename Struct>
const std::vector<FigureKey<Struct>>& figure_keys();
template <>
const std::vector<FigureKey<Machine>>& figure_keys();
template <>
const std::vector<FigureKey<DeviceKind>>& figure_keys();
template <>
const std::vector<FigureKey<TileFigures>>& figure_keys();
template <>
const std::vector<FigureKey<CacheLevel>>& figure_keys();
template <>
const std::vector<FigureKey<Efficiency>>& figure_keys();
template <>
const std::vector<FigureKey<MemoryKind>>& figure_keys();
template <>
const std::vector<FigureKey<LinkLevel>>& figure_keys();

/// All keys of machine files with their meaning, one a line, by table.
std::string machine_help();

}  // namespace ramet::machine
