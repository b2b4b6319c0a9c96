#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/track/annotations.h"

using namespace ramet::tests;

// The text of an annotations.json. Whatever it is, it can be changed, and what was set is there afterwards.
RAMET_FUZZ_TARGET(annotations, std::string_view input) {
  const Annotations read = parse_annotations(input);
  if (read.tags.size() > 100 || read.name.size() > 200) internal_error("annotations", "more than is allowed");
  if (input.size() % 16 != 0) return;  // files are slow
  const auto run = fuzz::empty_folder("annotations");
  write_file_atomic(run / "annotations.json", input);
  const Annotations changed = annotate_run(run, {.group = "g", .archived = true});
  if (changed.group != "g" || !changed.archived || changed.tags != read.tags || changed.note != read.note)
    internal_error("annotations", "a change changed something else");
  if (read_annotations(run) != changed) internal_error("annotations", "what was written is not what is read");
}

RAMET_FUZZ_SEEDS(annotations) {
  return {
      .inputs =
          {R"({"version":1,"tags":["a","b"],"note":"# N","group":"g","pinned":true,"colour":"#00ff00","archived":false,"name":"n"})",
           R"({"tags":[1,null,"",["x"]],"note":{},"colour":"red","more":[[[[1]]]]})", "{}", "[]", ""},
      .words = {"\"tags\"", "\"note\"", "\"colour\"", "#", "true", "null", "[", "]", "{", "}", "\\u0000", "\\ud800",
                "\xff"}};
}
