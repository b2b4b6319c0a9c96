// The command that makes a graph set of molecules written as SMILES.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <cstdio>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/cli/graphs.h"
#include "ramet/graphs/molecules.h"
#include "ramet/graphs/transform.h"

namespace ramet::cli {
namespace {

struct MoleculeArguments {
  std::string table, out, features = "ogb";
  graphs::MoleculeOptions options;
  std::vector<std::string> apply;
};

/// A cell of a table of comma-separated values.
std::string cell_of(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + "\"";
}

std::string refused_text(const std::vector<graphs::RefusedMolecule>& refused) {
  std::string text = "line,smiles,reason\n";
  for (const graphs::RefusedMolecule& each : refused)
    text += fmt::format("{},{},{}\n", each.line, cell_of(each.smiles), cell_of(each.reason));
  return text;
}

void report_refused(const std::vector<graphs::RefusedMolecule>& refused, int64_t rows, const std::string& file) {
  if (refused.empty()) return;
  std::fprintf(stderr, "%zu of %lld rows are no molecules, and are left out; all are listed in %s\n", refused.size(),
               static_cast<long long>(rows), file.c_str());
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(refused.size(), kShown); ++i)
    std::fprintf(stderr, "  line %lld: %s: %s\n", static_cast<long long>(refused[i].line),
                 refused[i].smiles.substr(0, 60).c_str(), refused[i].reason.c_str());
}

int run_molecules(MoleculeArguments arguments, bool json) {
  arguments.options.features =
      arguments.features == "ogb" ? graphs::MoleculeFeatures::kOgb : graphs::MoleculeFeatures::kGraphium;
  const auto reader = graphs::load_smiles_reader();
  const std::string text = read_file(arguments.table);
  StatusLine status;
  graphs::ReadMolecules read =
      graphs::read_molecules(text, arguments.table, arguments.options, *reader, [&](int64_t done, int64_t rows) {
        if (done % 1000 == 0 && !json) status.show(fmt::format("{} of {} molecules", done, rows));
      });
  status.clear();
  const int64_t rows = read.tables.graphs + std::ssize(read.refused);
  const std::filesystem::path folder = arguments.out;
  std::filesystem::create_directories(folder);
  write_file_atomic(folder / "refused.csv", refused_text(read.refused));
  graphs::require_molecules(read, arguments.table, (folder / "refused.csv").string());
  for (const std::string& transform : arguments.apply) graphs::apply_transform(read.tables, transform, "edge");
  const graphs::GraphSet set(std::move(read.tables), arguments.table);
  set.save(folder / "molecules.safetensors");
  if (json)
    JsonLine()
        .set("event", "molecules")
        .set("library", reader->library())
        .set("rows", rows)
        .set("refused", std::ssize(read.refused))
        .print();
  else
    report_refused(read.refused, rows, (folder / "refused.csv").string());
  print_graphs(set, json);
  return 0;
}

}  // namespace

void add_molecules(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<MoleculeArguments>();
  CLI::App* command = app.add_subcommand(
      "molecules", "Make a graph set of molecules written as SMILES (needs the module that `make molecules` builds)");
  command->add_option("table", arguments->table, "a table of comma-separated values, with a line of names")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--out", arguments->out,
                   "a folder: molecules.safetensors is the graph set, refused.csv lists the rows that are no molecules")
      ->type_name("DIR")
      ->required();
  command->add_option("--smiles", arguments->options.smiles, "the column of SMILES")
      ->type_name("COLUMN")
      ->capture_default_str();
  command
      ->add_option("--targets", arguments->options.targets,
                   "columns of numbers, as the field graph.y; an empty cell is not known")
      ->type_name("COLUMN")
      ->delimiter(',');
  command->add_option("--label", arguments->options.label, "a column of categories, as the field graph.label")
      ->type_name("COLUMN");
  command
      ->add_option("--features", arguments->features,
                   "of atoms and bonds: those of the Open Graph Benchmark, or of Graphium's data sets")
      ->check(CLI::IsMember({"ogb", "graphium"}))
      ->capture_default_str();
  command
      ->add_option("--apply", arguments->apply,
                   "changes, as of `ramet graphs prepare`; split-by=scaffold:80:10:10 keeps molecules of one scaffold "
                   "together")
      ->type_name("TRANSFORM")
      ->delimiter(',');
  add_json_option(*command, session);
  command->callback([arguments, &session] {
    session.action = [arguments, &session] { return run_molecules(*arguments, session.json); };
  });
}

}  // namespace ramet::cli
