#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/track/import.h"
#include "ramet/track/tf_record.h"

using namespace ramet::tests;

// Behind 'r' the bytes of a file; else payloads between record separators, framed here, so that mutations get past
// the checksums.
RAMET_FUZZ_TARGET(event_file, std::string_view input) {
  std::string file;
  if (input.starts_with('r')) {
    file = input.substr(1);
  } else {
    for (size_t at = 0; at < input.size();) {
      const size_t end = std::min(input.find('\x1e', at), input.size());
      file += tf_record(input.substr(at, end - at));
      at = end + 1;
    }
  }
  const auto path = fuzz::as_file(file);
  size_t points = 0;
  read_event_files({.kind = ImportKind::kTensorBoard, .path = path, .files = {path}, .name = "f"},
                   {.wants = [](const std::string&) { return true; },
                    .take = [&](ImportedRun run) { points = run.points(); },
                    .remark = {},
                    .progress = {}});
  if (points > file.size()) internal_error("event file", "more points than bytes");
}

RAMET_FUZZ_SEEDS(event_file) {
  const std::vector<LoggedNumber> values = {{"loss", 0.5}, {"rate", 1}};
  const std::vector<ConfigValue> config = {{"a", "1"}, {"b", "\"x\""}};
  const std::string records[] = {event_file::version(1),
                                 event_file::scalars(2, 3, values),
                                 event_file::text(3, 4, "t", "text"),
                                 event_file::image(4, 5, "i", "\x89PNG\r\n\x1a\n", 1, 1),
                                 event_file::histogram(5, 6, "h", {.edges = {0, 1, 2}, .counts = {1, 2}}),
                                 event_file::begin_session(6, config),
                                 event_file::end_session(7, true),
                                 event_file::restart(8, 2)};
  std::string file = "r", payloads;
  for (const std::string& record : records) {
    file += record;
    payloads += (payloads.empty() ? "" : "\x1e") + record.substr(12, record.size() - 16);
  }
  return {
      .inputs = {file, payloads},
      .words = {"\x1e", "scalars", "histograms", "hparams", "images", "text", "\x42", "\x4a", "\x12\x15", "\x0a\x04"}};
}
