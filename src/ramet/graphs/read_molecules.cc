#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>

#include "ramet/base/error_types.h"
#include "ramet/data/arrays.h"
#include "ramet/graphs/categories.h"
#include "ramet/graphs/lines.h"
#include "ramet/graphs/read.h"

namespace ramet::graphs {
namespace {

constexpr std::string_view kElements[] = {
    "H",  "He", "Li", "Be", "B",  "C",  "N",  "O",  "F",  "Ne", "Na", "Mg", "Al", "Si", "P",  "S",  "Cl",
    "Ar", "K",  "Ca", "Sc", "Ti", "V",  "Cr", "Mn", "Fe", "Co", "Ni", "Cu", "Zn", "Ga", "Ge", "As", "Se",
    "Br", "Kr", "Rb", "Sr", "Y",  "Zr", "Nb", "Mo", "Tc", "Ru", "Rh", "Pd", "Ag", "Cd", "In", "Sn", "Sb",
    "Te", "I",  "Xe", "Cs", "Ba", "La", "Ce", "Pr", "Nd", "Pm", "Sm", "Eu", "Gd", "Tb", "Dy", "Ho", "Er",
    "Tm", "Yb", "Lu", "Hf", "Ta", "W",  "Re", "Os", "Ir", "Pt", "Au", "Hg", "Tl", "Pb", "Bi", "Po", "At",
    "Rn", "Fr", "Ra", "Ac", "Th", "Pa", "U",  "Np", "Pu", "Am", "Cm", "Bk", "Cf", "Es", "Fm", "Md", "No",
    "Lr", "Rf", "Db", "Sg", "Bh", "Hs", "Mt", "Ds", "Rg", "Cn", "Nh", "Fl", "Mc", "Lv", "Ts", "Og"};

/// The atoms of molecules as fields of a set.
struct Atoms {
  std::vector<uint8_t> z;
  std::vector<float> pos;

  void add(const Lines& lines, std::string_view symbol, std::string_view x, std::string_view y, std::string_view w) {
    const int element = element_of_symbol(symbol);
    if (element == 0) lines.fail("an atom is of an unknown element", symbol, "a chemical symbol");
    z.push_back(static_cast<uint8_t>(element));
    for (const std::string_view word : {x, y, w}) pos.push_back(static_cast<float>(lines.real(word)));
  }
  void give(GraphTables& tables) const {
    tables.set_field({.name = "z", .of = "node", .dtype = DType::kU8}, z);
    tables.set_field({.name = "pos", .of = "node", .shape = Shape{3}, .unit = "Angstrom"}, pos);
  }
};

[[noreturn]] void fail(const std::string& where, const std::string& what, const std::string& found,
                       const std::string& expected) {
  throw FormatError({.what = what, .where = where, .found = found, .expected = expected});
}

std::string type_text(const ArrayColumn& column) { return column.stored + column.shape.text(); }

/// Numbers of an array of NumPy, all whole and from 0 to `most`.
template <typename T>
std::vector<T> whole_numbers(const ArrayColumn& column, int64_t most, const std::string& where) {
  const Field field{.name = column.name, .dtype = dtype_from_name(column.stored)};
  const std::span<const std::byte> bytes(column.data,
                                         static_cast<size_t>(column.shape.elements() * stored_size(column.stored)));
  std::vector<T> values;
  for (int64_t i = 0; i < column.shape.elements(); ++i) {
    const double number = field_number(field, bytes, i);
    if (!(number >= 0 && number <= static_cast<double>(most)) || number != std::floor(number))
      fail(where + ", element " + std::to_string(i), "a number is none, or out of range", std::to_string(number),
           "a whole number from 0 to " + std::to_string(most));
    values.push_back(static_cast<T>(number));
  }
  return values;
}

void check_elements(const ArrayColumn& z, const std::string& where) {
  const auto* const elements = reinterpret_cast<const uint8_t*>(z.data);
  for (int64_t atom = 0; atom < z.shape[0]; ++atom)
    if (elements[atom] < 1 || elements[atom] > std::size(kElements))
      fail(where + ", atom " + std::to_string(atom), "an atom is of an unknown element", std::to_string(elements[atom]),
           "1 to " + std::to_string(std::size(kElements)));
}

/// The part of a line of fixed columns.
std::string_view part(std::string_view line, size_t begin, size_t count) {
  return begin >= line.size() ? std::string_view() : trimmed(line.substr(begin, count));
}

/// Reads one molecule after another of an SDF file.
class SdfReader {
 public:
  SdfReader(std::string_view text, const std::string& source) : lines_(text, source), tables_(homogeneous_tables()) {}

  GraphTables read() {
    while (lines_.next()) molecule();
    give_items();
    atoms_.give(tables_);
    tables_.set_field({.name = "charge", .of = "node", .dtype = DType::kI8}, charges_);
    tables_.set_field({.name = "bond",
                       .per = Per::kEdge,
                       .of = "edge",
                       .dtype = DType::kU8,
                       .values = {"none", "single", "double", "triple", "aromatic"}},
                      bonds_);
    return std::move(tables_);
  }

 private:
  void next() {
    if (!lines_.next()) lines_.fail("a molecule is not whole", {}, "the line \"M  END\" and, at its end, \"$$$$\"");
  }

  /// The current line is the molecule's name.
  void molecule() {
    if (tables_.graphs > 0 && trimmed(lines_.line()).empty() && at_end_) {
      return;  // empty lines behind the last molecule
    }
    next(), next(), next();  // the program, the comment; then the line of counts
    const std::string_view counts = lines_.line();
    if (counts.find("V3000") != std::string_view::npos)
      lines_.fail("molecules of the form V3000 are not read", "V3000", "V2000", "Convert the file to V2000");
    const int64_t atoms = lines_.whole(part(counts, 0, 3), 0, 999), bonds = lines_.whole(part(counts, 3, 3), 0, 999);
    for (int64_t i = 0; i < atoms; ++i) {
      next();
      const std::string_view line = lines_.line();
      atoms_.add(lines_, part(line, 31, 3), part(line, 0, 10), part(line, 10, 10), part(line, 20, 10));
      charges_.push_back(0);
    }
    EdgeTable& edges = tables_.edges[0];
    for (int64_t i = 0; i < bonds; ++i) {
      next();
      const std::string_view line = lines_.line();
      const auto from = static_cast<int32_t>(lines_.whole(part(line, 0, 3), 1, atoms) - 1),
                 to = static_cast<int32_t>(lines_.whole(part(line, 3, 3), 1, atoms) - 1);
      const auto bond = static_cast<uint8_t>(lines_.whole(part(line, 6, 3), 1, 4));
      for (const auto& [a, b] : {std::pair(from, to), std::pair(to, from)}) {
        edges.source.push_back(a);
        edges.target.push_back(b);
        bonds_.push_back(bond);
      }
    }
    properties(atoms);
    items();
    ++tables_.graphs;
    tables_.nodes[0].ptr.push_back(std::ssize(atoms_.z));
    edges.ptr.push_back(std::ssize(edges.source));
    at_end_ = true;
  }

  /// Lines up to "M  END"; of them the charges are read.
  void properties(int64_t atoms) {
    for (next(); !lines_.line().starts_with("M  END"); next()) {
      if (!lines_.line().starts_with("M  CHG")) continue;
      const auto words = words_of(lines_.line().substr(6));
      if (words.empty()) lines_.fail("a line of charges is empty");
      const int64_t count = lines_.whole(words[0], 0, 8);
      if (std::ssize(words) != 1 + 2 * count) lines_.fail("a line of charges is not whole", lines_.line());
      for (int64_t i = 0; i < count; ++i) {
        const int64_t atom = lines_.whole(words[static_cast<size_t>(1 + 2 * i)], 1, atoms);
        charges_[charges_.size() - static_cast<size_t>(atoms) + static_cast<size_t>(atom) - 1] =
            static_cast<int8_t>(lines_.whole(words[static_cast<size_t>(2 + 2 * i)], -15, 15));
      }
    }
  }

  /// Data items up to "$$$$", or to the end of the file.
  void items() {
    while (lines_.next()) {
      const std::string_view line = lines_.line();
      if (line.starts_with("$$$$")) return;
      if (!line.starts_with('>')) continue;
      const size_t begin = line.find('<'), end = line.find('>', 1);
      if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) continue;
      std::string name;
      for (const char c : line.substr(begin + 1, end - begin - 1))
        name += std::isalnum(static_cast<unsigned char>(c)) || c == '-' ? c : '_';
      if (!lines_.next()) return;
      const std::string_view word = trimmed(lines_.line());
      double value = 0;
      const auto [last, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      if (error != std::errc() || last != word.data() + word.size() || !std::isfinite(value)) continue;
      std::vector<double>& values = items_[name];
      if (std::ssize(values) == tables_.graphs) values.push_back(value);
    }
  }

  void give_items() {
    for (const auto& [name, values] : items_)
      if (std::ssize(values) == tables_.graphs && !name.empty() && name.size() <= 200)
        tables_.set_field({.name = name, .per = Per::kGraph, .dtype = DType::kF64}, values);
  }

  Lines lines_;
  GraphTables tables_;
  Atoms atoms_;
  std::vector<int8_t> charges_;
  std::vector<uint8_t> bonds_;
  std::map<std::string, std::vector<double>> items_;
  bool at_end_ = false;
};

}  // namespace

int element_of_symbol(std::string_view symbol) {
  const auto* const found = std::find(std::begin(kElements), std::end(kElements), symbol);
  return found == std::end(kElements) ? 0 : static_cast<int>(found - std::begin(kElements)) + 1;
}

GraphTables read_qm9(const std::filesystem::path& folder) {
  const auto open = [&](const std::string& name) { return open_npy(folder / (name + ".npy")).front(); };
  const ArrayColumn z = open("z"), pos = open("pos"), ptr = open("ptr"), y = open("y");
  const std::string where = folder.string();
  if (z.shape.rank() != 1 || z.stored != "u8" || pos.shape.rank() != 2 || pos.stored != "f32" || pos.shape[1] != 3 ||
      pos.shape[0] != z.shape[0])
    fail(where, "the arrays of atoms do not fit each other", type_text(z) + " and " + type_text(pos),
         "z u8 [atoms] and pos f32 [atoms,3]");
  if (ptr.shape.rank() != 1 || ptr.shape[0] < 2 || y.shape.rank() != 2 || y.stored != "f64" ||
      y.shape[0] != ptr.shape[0] - 1)
    fail(where, "the arrays of molecules do not fit each other", type_text(ptr) + " and " + type_text(y),
         "ptr [molecules+1] and y f64 [molecules,targets]");
  check_elements(z, where + "/z.npy");
  GraphTables tables = homogeneous_tables();
  tables.graphs = y.shape[0];
  tables.nodes[0].ptr = whole_numbers<int64_t>(ptr, z.shape[0], where + "/ptr.npy");
  if (tables.nodes[0].ptr.back() != z.shape[0])
    fail(where + "/ptr.npy", "the molecules do not end with the last atom", std::to_string(tables.nodes[0].ptr.back()),
         std::to_string(z.shape[0]));
  tables.edges[0].ptr.assign(static_cast<size_t>(tables.graphs) + 1, 0);
  tables.set_field_bytes({.name = "z", .of = "node", .dtype = DType::kU8}, z.data, static_cast<size_t>(z.shape[0]));
  tables.set_field_bytes({.name = "pos", .of = "node", .shape = Shape{3}, .unit = "Angstrom"}, pos.data,
                         static_cast<size_t>(pos.shape[0]) * 12);
  tables.set_field_bytes({.name = "y", .per = Per::kGraph, .dtype = DType::kF64, .shape = Shape{y.shape[1]}}, y.data,
                         static_cast<size_t>(y.shape.elements()) * 8);
  if (std::filesystem::exists(folder / "index.npy")) {
    const ArrayColumn index = open("index");
    const auto numbers = whole_numbers<int32_t>(index, INT32_MAX, where + "/index.npy");
    if (std::ssize(numbers) != tables.graphs)
      fail(where + "/index.npy", "there is not one number a molecule", index.shape.text(),
           std::to_string(tables.graphs));
    tables.set_field({.name = "index", .per = Per::kGraph, .dtype = DType::kI32}, numbers);
  }
  return tables;
}

GraphTables parse_xyz(std::string_view text, const std::string& source) {
  GraphTables tables = homogeneous_tables();
  Atoms atoms;
  Lines lines(text, source);
  while (lines.next()) {
    if (trimmed(lines.line()).empty()) continue;
    const int64_t count = lines.whole(lines.line(), 0, INT32_MAX);
    if (!lines.next()) lines.fail("a molecule is not whole", {}, "a line of comment");
    for (int64_t i = 0; i < count; ++i) {
      if (!lines.next())
        lines.fail("a molecule is not whole", std::to_string(i) + " atoms", std::to_string(count) + " atoms");
      const auto words = words_of(lines.line());
      if (words.size() < 4) lines.fail("a line is no atom", lines.line(), "'SYMBOL x y z'");
      atoms.add(lines, words[0], words[1], words[2], words[3]);
    }
    ++tables.graphs;
    tables.nodes[0].ptr.push_back(std::ssize(atoms.z));
    tables.edges[0].ptr.push_back(0);
  }
  atoms.give(tables);
  return tables;
}

GraphTables parse_sdf(std::string_view text, const std::string& source) { return SdfReader(text, source).read(); }

}  // namespace ramet::graphs
