#include "ramet/graphs/molecules.h"

#include <algorithm>
#include <limits>

#include "ramet/base/error_types.h"
#include "ramet/base/words.h"
#include "ramet/graphs/lines.h"

namespace ramet::graphs {
namespace {

/// The names of categories first, first + 1, ..., last.
std::vector<std::string> numbers(int first, int last) {
  std::vector<std::string> names;
  for (int number = first; number <= last; ++number) names.push_back(std::to_string(number));
  return names;
}

std::vector<std::string> with_other(std::vector<std::string> names) {
  names.emplace_back("other");
  return names;
}

/// Position of `number` among first, first + 1, ..., last; of another number the position behind.
int place(int number, int first, int last) {
  return number < first || number > last ? last - first + 1 : number - first;
}

/// Period of an element: 1 to 7; 0 for none.
int period_of(int element) {
  constexpr int kLast[] = {2, 10, 18, 36, 54, 86, 118};
  const auto* const period = std::lower_bound(std::begin(kLast), std::end(kLast), element);
  return element < 1 || period == std::end(kLast) ? 0 : static_cast<int>(period - std::begin(kLast)) + 1;
}

/// Group of an element: 1 to 18; 0 for lanthanides, actinides and no element. Lanthanum and actinium are of group 3.
int group_of(int element) {
  constexpr int kBefore[] = {0, 2, 10, 18, 36, 54, 86};
  const int period = period_of(element);
  if (period == 0) return 0;
  const int at = element - kBefore[period - 1];  // from 1 on
  switch (period) {
    case 1: return at == 1 ? 1 : 18;
    case 2:
    case 3: return at <= 2 ? at : at + 10;
    case 4:
    case 5: return at;
    default: return at <= 3 ? at : at <= 17 ? 0 : at - 14;
  }
}

/// A category of an atom, or of a bond: its name, what its values mean, and the value.
template <typename Of>
struct Category {
  const char* name;
  std::vector<std::string> values;
  int (*of)(const Of&);
};

const std::vector<std::string>& booleans() {
  static const std::vector<std::string> names{"no", "yes"};
  return names;
}

Category<MoleculeAtom> element_category() {
  return {"element", with_other(numbers(1, 118)), [](const MoleculeAtom& atom) { return place(atom.element, 1, 118); }};
}

std::vector<Category<MoleculeAtom>> atom_categories(MoleculeFeatures features) {
  if (features == MoleculeFeatures::kGraphium)
    return {element_category(),
            {"group", numbers(0, 18), [](const MoleculeAtom& atom) { return group_of(atom.element); }},
            {"period", numbers(0, 7), [](const MoleculeAtom& atom) { return period_of(atom.element); }},
            {"valence", with_other(numbers(0, 8)), [](const MoleculeAtom& atom) { return place(atom.valence, 0, 8); }}};
  return {
      element_category(),
      {"chirality",
       {"none", "clockwise", "counterclockwise", "other", "unknown"},
       [](const MoleculeAtom& atom) { return atom.chirality; }},
      {"degree", with_other(numbers(0, 10)), [](const MoleculeAtom& atom) { return place(atom.degree, 0, 10); }},
      {"charge", with_other(numbers(-5, 5)), [](const MoleculeAtom& atom) { return place(atom.charge, -5, 5); }},
      {"hydrogens", with_other(numbers(0, 8)), [](const MoleculeAtom& atom) { return place(atom.hydrogens, 0, 8); }},
      {"radicals", with_other(numbers(0, 4)), [](const MoleculeAtom& atom) { return place(atom.radicals, 0, 4); }},
      {"hybridization",
       {"sp", "sp2", "sp3", "sp3d", "sp3d2", "other"},
       [](const MoleculeAtom& atom) { return atom.hybridization; }},
      {"aromatic", booleans(), [](const MoleculeAtom& atom) { return int{atom.aromatic}; }},
      {"ring", booleans(), [](const MoleculeAtom& atom) { return int{atom.ring}; }}};
}

std::vector<Category<MoleculeBond>> bond_categories(MoleculeFeatures features) {
  std::vector<Category<MoleculeBond>> categories{
      {"kind", {"single", "double", "triple", "aromatic", "other"}, [](const MoleculeBond& bond) { return bond.kind; }},
      {"stereo", {"none", "z", "e", "cis", "trans", "any"}, [](const MoleculeBond& bond) { return bond.stereo; }}};
  if (features == MoleculeFeatures::kGraphium)
    categories.push_back({"ring", booleans(), [](const MoleculeBond& bond) { return int{bond.ring}; }});
  else
    categories.push_back({"conjugated", booleans(), [](const MoleculeBond& bond) { return int{bond.conjugated}; }});
  return categories;
}

class MoleculeTable {
 public:
  MoleculeTable(std::string_view csv, const std::string& source, const MoleculeOptions& options)
      : table_(parse_csv(csv, source)), options_(options), smiles_(table_.at(options.smiles)) {
    for (const std::string& target : options.targets) targets_.push_back(table_.at(target));
    if (!options.label.empty()) label_ = static_cast<int64_t>(table_.at(options.label));
  }

  ReadMolecules read(const SmilesReader& reader, const std::function<void(int64_t, int64_t)>& progress) {
    for (size_t row = 0; row < table_.rows.size(); ++row) {
      const std::string smiles(trimmed(table_.rows[row][smiles_]));
      Molecule molecule;
      const std::string reason = smiles.empty() ? "the cell is empty" : reader.read(smiles, molecule);
      if (!reason.empty())
        result_.refused.push_back({table_.lines[row], smiles, reason});
      else
        add(row, std::move(molecule));
      if (progress) progress(static_cast<int64_t>(row) + 1, std::ssize(table_.rows));
    }
    if (!rows_.empty()) build();
    return std::move(result_);
  }

 private:
  void add(size_t row, Molecule molecule) {
    for (const size_t column : targets_) y_.push_back(number(row, column));
    if (label_ >= 0) labels_.push_back(table_.rows[row][static_cast<size_t>(label_)]);
    rows_.push_back(row);
    molecules_.push_back(std::move(molecule));
  }

  double number(size_t row, size_t column) const {
    const std::string& cell = table_.rows[row][column];
    if (trimmed(cell).empty()) return std::numeric_limits<double>::quiet_NaN();
    return Lines("", table_.source + ":" + std::to_string(table_.lines[row]) + ", " + table_.header[column])
        .real(cell, "Leave the cell of a number that is not known empty");
  }

  void build() {
    GraphTables& tables = result_.tables = homogeneous_tables();
    tables.graphs = std::ssize(molecules_);
    for (const Molecule& molecule : molecules_) {
      tables.nodes[0].ptr.push_back(tables.nodes[0].ptr.back() + std::ssize(molecule.atoms));
      tables.edges[0].ptr.push_back(tables.edges[0].ptr.back() + 2 * std::ssize(molecule.bonds));
      for (const MoleculeBond& bond : molecule.bonds)
        for (const auto& [source, target] : {std::pair(bond.from, bond.to), std::pair(bond.to, bond.from)}) {
          tables.edges[0].source.push_back(source);
          tables.edges[0].target.push_back(target);
        }
    }
    for (const auto& category : atom_categories(options_.features)) {
      std::vector<int32_t> values;
      for (const Molecule& molecule : molecules_)
        for (const MoleculeAtom& atom : molecule.atoms) values.push_back(category.of(atom));
      tables.set_field({.name = category.name, .of = "node", .dtype = DType::kI32, .values = category.values}, values);
    }
    for (const auto& category : bond_categories(options_.features)) {
      std::vector<int32_t> values;
      for (const Molecule& molecule : molecules_)
        for (const MoleculeBond& bond : molecule.bonds) values.insert(values.end(), 2, category.of(bond));
      tables.set_field(
          {.name = category.name, .per = Per::kEdge, .of = "edge", .dtype = DType::kI32, .values = category.values},
          values);
    }
    if (options_.features == MoleculeFeatures::kGraphium) set_numbers();
    set_graph_fields();
  }

  void set_numbers() {
    std::vector<float> values;
    for (const Molecule& molecule : molecules_)
      for (const MoleculeAtom& atom : molecule.atoms)
        for (const int number : {atom.degree, atom.charge, atom.radicals, int{atom.aromatic}, int{atom.ring}})
          values.push_back(static_cast<float>(number));
    result_.tables.set_field({.name = "numbers", .of = "node", .shape = {5}}, values);
  }

  void set_graph_fields() {
    GraphTables& tables = result_.tables;
    std::vector<int32_t> lines, scaffolds;
    Names names;
    for (size_t i = 0; i < rows_.size(); ++i) {
      lines.push_back(static_cast<int32_t>(table_.lines[rows_[i]]));
      scaffolds.push_back(names.number_of(molecules_[i].scaffold));
    }
    tables.set_field({.name = "line", .per = Per::kGraph, .dtype = DType::kI32}, lines);
    tables.set_field({.name = "scaffold", .per = Per::kGraph, .dtype = DType::kI32, .values = names.all()}, scaffolds);
    if (!targets_.empty())
      tables.set_field(
          {.name = "y", .per = Per::kGraph, .dtype = DType::kF64, .shape = {std::ssize(targets_)}, .missing = true},
          y_);
    if (label_ >= 0) set_label();
  }

  void set_label() {
    std::vector<std::string> values = labels_;
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    std::erase(values, "");
    std::vector<int32_t> categories;
    for (const std::string& label : labels_)
      categories.push_back(
          label.empty() ? -1
                        : static_cast<int32_t>(std::lower_bound(values.begin(), values.end(), label) - values.begin()));
    const bool missing = std::find(categories.begin(), categories.end(), -1) != categories.end();
    result_.tables.set_field(
        {.name = "label", .per = Per::kGraph, .dtype = DType::kI32, .missing = missing, .values = values}, categories);
  }

  CsvTable table_;
  const MoleculeOptions& options_;
  size_t smiles_;
  std::vector<size_t> targets_;
  int64_t label_ = -1;
  std::vector<size_t> rows_;
  std::vector<Molecule> molecules_;
  std::vector<double> y_;
  std::vector<std::string> labels_;
  ReadMolecules result_;
};

}  // namespace

ReadMolecules read_molecules(std::string_view csv, const std::string& source, const MoleculeOptions& options,
                             const SmilesReader& reader, const std::function<void(int64_t, int64_t)>& progress) {
  return MoleculeTable(csv, source, options).read(reader, progress);
}

void require_molecules(const ReadMolecules& read, const std::string& source, const std::string& list) {
  if (read.tables.graphs > 0) return;
  if (read.refused.empty())
    throw FormatError({.what = "the table has no molecules", .where = source, .found = "no rows"});
  const RefusedMolecule& first = read.refused[0];
  const std::string rows = std::to_string(read.refused.size());
  throw FormatError(
      {.what = rows + " of " + rows + " rows are no molecules",
       .where = source,
       .found = "in line " + std::to_string(first.line) + " '" + first.smiles.substr(0, 100) + "': " + first.reason,
       .remedy = "All rows and the reasons are listed in " + list + ". --smiles names the column to read"});
}

}  // namespace ramet::graphs
