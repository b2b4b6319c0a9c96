// The commands that prepare and describe graph sets.
#include "ramet/cli/graphs.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <cstdio>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/words.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/graphs/read.h"
#include "ramet/graphs/summary.h"
#include "ramet/graphs/transform.h"

namespace ramet::cli {
namespace {

using graphs::GraphSet;
using graphs::GraphTables;

struct PrepareArguments {
  std::string format, path, name, out, splits, nodes, graphs, edges = "edge";
  std::vector<std::string> apply, categories;
};

/// A file's bytes, which the result of a reader does not need any more.
std::string text_of(const std::string& path) { return read_file(path); }

GraphTables read_triple_folder(const std::filesystem::path& folder) {
  std::vector<std::string> texts;
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& [name, part] :
       {std::pair("train", "train"), std::pair("valid", "validation"), std::pair("test", "test")})
    if (const auto path = folder / (std::string(name) + ".txt"); std::filesystem::exists(path))
      files.emplace_back(path.string(), part), texts.push_back(read_file(path));
  if (files.empty())
    throw Error({.what = "the folder has no triples",
                 .where = folder.string(),
                 .expected = "train.txt, and perhaps valid.txt and test.txt"});
  std::vector<graphs::TriplePart> parts;
  for (size_t i = 0; i < files.size(); ++i) parts.push_back({files[i].second, texts[i], files[i].first});
  return graphs::parse_triples(parts);
}

/// The name that files of a set begin with; without --name that of the folder.
std::string name_of(const PrepareArguments& arguments) {
  if (!arguments.name.empty()) return arguments.name;
  const std::filesystem::path path = std::filesystem::path(arguments.path) / "";
  return path.parent_path().filename().string();
}

GraphTables read_tables(const PrepareArguments& arguments) {
  const std::string& format = arguments.format;
  if (format == "planetoid") return graphs::read_planetoid(arguments.path, name_of(arguments));
  if (format == "tu") return graphs::read_tu(arguments.path, name_of(arguments));
  if (format == "npz") return graphs::read_npz(arguments.path);
  if (format == "triples") return read_triple_folder(arguments.path);
  if (format == "events") return graphs::parse_events(text_of(arguments.path), arguments.path);
  if (format == "qm9") return graphs::read_qm9(arguments.path);
  if (format == "xyz") return graphs::parse_xyz(text_of(arguments.path), arguments.path);
  if (format == "sdf") return graphs::parse_sdf(text_of(arguments.path), arguments.path);
  if (format == "csv") {
    const auto table = [](const std::string& path) { return path.empty() ? "" : text_of(path); };
    const std::string nodes = table(arguments.nodes), all = table(arguments.graphs), edges = text_of(arguments.path);
    return graphs::parse_csv_graphs({edges, nodes, all, arguments.categories}, arguments.path);
  }
  return GraphSet::open(arguments.path).tables();
}

JsonLine json_of(const GraphSet& set) {
  const graphs::GraphSummary summary = graphs::summarise(set);
  JsonLine line;
  line.set("event", "graphs").set("graphs", summary.graphs).set("empty", summary.empty);
  for (const auto& nodes : summary.nodes)
    line.set(nodes.type + ".nodes", nodes.sizes.total)
        .set(nodes.type + ".most", nodes.sizes.most)
        .set(nodes.type + ".isolated", nodes.isolated);
  for (const auto& edges : summary.edges)
    line.set(edges.key + ".edges", edges.sizes.total)
        .set(edges.key + ".most", edges.sizes.most)
        .set(edges.key + ".self_loops", edges.self_loops)
        .set(edges.key + ".duplicates", edges.duplicates)
        .set(edges.key + ".symmetric", edges.symmetric);
  line.set("contents", set.contents().hex());
  return line;
}

std::string count_text(int64_t count) { return number_text(static_cast<double>(count)); }

void print_summary(const GraphSet& set) {
  const graphs::GraphSummary summary = graphs::summarise(set);
  std::printf("%s graph%s%s\n", count_text(summary.graphs).c_str(), summary.graphs == 1 ? "" : "s",
              summary.empty > 0 ? (", " + count_text(summary.empty) + " without nodes").c_str() : "");
  std::vector<std::vector<std::string>> table{{"", "total", "least", "mean", "most", "of graph", "notes"}};
  const auto add = [&](const std::string& name, const graphs::Sizes& sizes, const std::string& notes) {
    table.push_back({name, count_text(sizes.total), count_text(sizes.least), fmt::format("{:.2f}", sizes.mean),
                     count_text(sizes.most), std::to_string(sizes.most_graph), notes});
  };
  for (const auto& nodes : summary.nodes)
    add(nodes.type == "node" ? "nodes" : nodes.type, nodes.sizes,
        nodes.isolated > 0 ? count_text(nodes.isolated) + " without edges" : "");
  for (const auto& edges : summary.edges) {
    std::string notes = edges.symmetric ? "both directions" : "";
    const auto note = [&](int64_t count, const std::string& what) {
      if (count > 0) notes += (notes.empty() ? "" : ", ") + count_text(count) + " " + what;
    };
    note(edges.self_loops, "self loops");
    note(edges.duplicates, "duplicates");
    note(edges.most_in, "at most into a node");
    add(edges.key == "edge" ? "edges" : edges.key, edges.sizes, notes);
  }
  std::fputs(table_text(table).c_str(), stdout);
  std::vector<std::vector<std::string>> fields{{"field", "type", "notes"}};
  for (const graphs::Field& field : set.fields()) {
    std::string notes = field.unit;
    if (!field.values.empty())
      notes += (notes.empty() ? "" : ", ") + std::to_string(field.values.size()) + " categories";
    if (field.missing) notes += std::string(notes.empty() ? "" : ", ") + "may be missing";
    fields.push_back({field.key(), graphs::type_text(field), notes});
  }
  std::fputs(table_text(fields).c_str(), stdout);
}

int run_prepare(const PrepareArguments& arguments, bool json) {
  GraphTables tables = read_tables(arguments);
  if (!arguments.splits.empty()) graphs::add_folds(tables, read_file(arguments.splits), arguments.splits);
  for (const std::string& text : tables.notes) note(text);
  for (const std::string& transform : arguments.apply) graphs::apply_transform(tables, transform, arguments.edges);
  const GraphSet set(std::move(tables), arguments.path);
  set.save(arguments.out);
  print_graphs(set, json);
  return 0;
}

int run_describe(const std::string& path, bool json) {
  print_graphs(GraphSet::open(path), json);
  return 0;
}

std::string transforms_text() {
  std::string text = "changes, in order:";
  for (const graphs::TransformEntry& entry : graphs::transform_table())
    text += " " + std::string(entry.name) + (entry.argument.empty() ? "" : "=" + std::string(entry.argument)) + " (" +
            std::string(entry.doc) + ")" + (&entry == &graphs::transform_table().back() ? "" : ",");
  return text;
}

void add_prepare(CLI::App& parent, Session& session) {
  auto arguments = std::make_shared<PrepareArguments>();
  CLI::App* command = parent.add_subcommand("prepare", "Read graphs of a public format, and write them as a graph set");
  command->add_option("format", arguments->format, "of the data; 'set' reads a graph set")
      ->required()
      ->check(CLI::IsMember({"planetoid", "tu", "npz", "triples", "events", "qm9", "xyz", "sdf", "csv", "set"}));
  command
      ->add_option("path", arguments->path,
                   "a folder (planetoid, tu, triples, qm9) or a file; of csv the table of edges")
      ->type_name("FILE")
      ->required();
  command->add_option("--out", arguments->out, "the graph set to write (.safetensors)")->type_name("FILE")->required();
  command->add_option("--name", arguments->name, "what the files' names begin with (default: the folder's name)")
      ->type_name("NAME");
  command->add_option("--splits", arguments->splits, "folds of graphs as JSON (tu)")->type_name("FILE");
  command->add_option("--nodes", arguments->nodes, "the table of nodes (csv)")->type_name("FILE");
  command->add_option("--graphs", arguments->graphs, "the table of graphs (csv)")->type_name("FILE");
  command->add_option("--categories", arguments->categories, "columns of words, though they look like numbers (csv)")
      ->type_name("COLUMN")
      ->delimiter(',');
  command->add_option("--edges", arguments->edges, "the type of edges that transforms change")
      ->type_name("KEY")
      ->capture_default_str();
  command->add_option("--apply", arguments->apply, transforms_text())->type_name("TRANSFORM")->delimiter(',');
  add_json_option(*command, session);
  command->callback([arguments, &session] {
    session.action = [arguments, &session] { return run_prepare(*arguments, session.json); };
  });
}

}  // namespace

void print_graphs(const GraphSet& set, bool json) {
  if (json)
    json_of(set).print();
  else
    print_summary(set);
}

void add_graphs(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("graphs", "Prepare and describe graph sets");
  command->require_subcommand(1);
  add_prepare(*command, session);
  auto path = std::make_shared<std::string>();
  CLI::App* describe = command->add_subcommand("describe", "Say what a graph set holds");
  describe->add_option("set", *path, "a graph set")->type_name("FILE")->required();
  add_json_option(*describe, session);
  describe->callback(
      [path, &session] { session.action = [path, &session] { return run_describe(*path, session.json); }; });
}

}  // namespace ramet::cli
