// The command that shows what packing sequences is worth.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/text/packing.h"

namespace ramet::cli {
namespace {

struct PackArguments {
  std::string histogram;
  std::vector<std::string> algorithms = {"spfhp", "lpfhp", "nnlshp"};
  std::vector<int64_t> depths;
};

struct Line {
  std::string algorithm;
  int64_t depth = 0;
  Packing packing;
};

std::vector<Line> lines_of(const PackArguments& arguments, const LengthHistogram& histogram) {
  std::vector<Line> lines{{"none", 1, pack_histogram(histogram, PackingAlgorithm::kSpfhp, 1)}};
  for (const std::string& name : arguments.algorithms) {
    const PackingAlgorithm algorithm = packing_algorithm(name);
    // Least squares choose from all full packs: beyond depth 3 there are soon too many.
    const bool chooses = algorithm == PackingAlgorithm::kNnlshp;
    std::vector<int64_t> depths = arguments.depths;
    if (depths.empty()) depths = chooses ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{2, 3, 4, 8, 16, 0};
    for (const int64_t depth : depths) lines.push_back({name, depth, pack_histogram(histogram, algorithm, depth)});
  }
  return lines;
}

int run_pack(const PackArguments& arguments, bool json) {
  const LengthHistogram histogram = load_histogram(arguments.histogram);
  const std::vector<Line> lines = lines_of(arguments, histogram);
  if (json) {
    for (const Line& line : lines)
      JsonLine()
          .set("event", "packing")
          .set("algorithm", line.algorithm)
          .set("depth", line.depth)
          .set("row", line.packing.row)
          .set("sequences", line.packing.sequences())
          .set("tokens", line.packing.tokens())
          .set("packs", line.packing.packs())
          .set("efficiency", line.packing.efficiency())
          .set("factor", line.packing.factor())
          .set("deepest", line.packing.deepest())
          .set("kinds", static_cast<int64_t>(line.packing.kinds.size()))
          .print();
    return 0;
  }
  std::printf("%s sequences, %s tokens, in rows of %lld\n",
              number_text(static_cast<double>(histogram.sequences())).c_str(),
              number_text(static_cast<double>(histogram.tokens())).c_str(), static_cast<long long>(histogram.row()));
  std::vector<std::vector<std::string>> table{
      {"packing", "depth", "rows", "efficiency", "factor", "deepest", "kinds of packs"}};
  for (const Line& line : lines)
    table.push_back({line.algorithm, line.depth == 0 ? "no limit" : std::to_string(line.depth),
                     std::to_string(line.packing.packs()), fmt::format("{:.3f}%", 100 * line.packing.efficiency()),
                     fmt::format("{:.3f}", line.packing.factor()), std::to_string(line.packing.deepest()),
                     std::to_string(line.packing.kinds.size())});
  std::fputs(table_text(table).c_str(), stdout);
  return 0;
}

}  // namespace

void add_pack(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<PackArguments>();
  CLI::App* command =
      app.add_subcommand("pack", "Say how few rows the sequences of a histogram of lengths can be packed into");
  command
      ->add_option("histogram", arguments->histogram,
                   "lines of a length and a count, lengths rising; a row is as long as the last length")
      ->type_name("FILE")
      ->required();
  command->add_option("--algorithm", arguments->algorithms, "one or more of spfhp, lpfhp and nnlshp (default: all)")
      ->check(CLI::IsMember({"spfhp", "lpfhp", "nnlshp"}));
  command
      ->add_option("--depth", arguments->depths, "most sequences of a row, one or more; 0: no limit (default: several)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  add_json_option(*command, session);
  command->callback(
      [arguments, &session] { session.action = [arguments, &session] { return run_pack(*arguments, session.json); }; });
}

}  // namespace ramet::cli
