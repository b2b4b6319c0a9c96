#include <algorithm>

#include "ramet/base/error_types.h"
#include "ramet/graphs/categories.h"
#include "ramet/graphs/lines.h"
#include "ramet/graphs/read.h"

namespace ramet::graphs {

GraphTables parse_triples(const std::vector<TriplePart>& parts) {
  Names entities, relations;
  GraphTables tables = homogeneous_tables();
  EdgeTable& edges = tables.edges[0];
  std::vector<int32_t> relation;
  std::vector<uint8_t> split;
  const std::vector<std::string> known = split_names();
  for (const TriplePart& part : parts) {
    const auto found = std::find(known.begin(), known.end(), part.name);
    if (found == known.end())
      throw FormatError({.what = "a part of the triples has an unknown name",
                         .where = part.source,
                         .found = "'" + part.name + "'",
                         .expected = "train, validation or test"});
    Lines lines(part.text, part.source);
    while (lines.next()) {
      if (lines.line().empty()) continue;
      const auto words = split_at(lines.line(), '\t');
      if (words.size() != 3 || words[0].empty() || words[1].empty() || words[2].empty())
        lines.fail("a line is no triple", lines.line(), "'head<TAB>relation<TAB>tail'");
      edges.source.push_back(entities.number_of(words[0]));
      relation.push_back(relations.number_of(words[1]));
      edges.target.push_back(entities.number_of(words[2]));
      split.push_back(static_cast<uint8_t>(found - known.begin()));
    }
  }
  tables.graphs = 1;
  tables.nodes[0].ptr = {0, std::ssize(entities.all())};
  edges.ptr = {0, std::ssize(edges.source)};
  tables.names["node"] = entities.all();
  tables.set_field(
      {.name = "relation", .per = Per::kEdge, .of = "edge", .dtype = DType::kI32, .values = relations.all()}, relation);
  if (parts.size() > 1)
    tables.set_field({.name = "split", .per = Per::kEdge, .of = "edge", .dtype = DType::kU8, .values = split_names()},
                     split);
  return tables;
}

}  // namespace ramet::graphs
