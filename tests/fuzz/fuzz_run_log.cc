#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/track/run_log.h"

using namespace ramet::tests;

namespace {

std::string number(uint64_t value, size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(value >> 8 * i);
  return text;
}

std::string frame(std::string_view payload) {
  return "RLF1" + number(payload.size(), 4) + number(crc32c(payload.data(), payload.size()), 4) + std::string(payload);
}

}  // namespace

// Behind 'r' the bytes of a file; else payloads between record separators, framed here, so that mutations get past
// the checksum.
RAMET_FUZZ_TARGET(run_log, std::string_view input) {
  std::string file;
  if (input.starts_with('r')) {
    file = input.substr(1);
  } else {
    for (size_t at = 0; at < input.size();) {
      const size_t end = std::min(input.find('\x1e', at), input.size());
      file += frame(input.substr(at, end - at));
      at = end + 1;
    }
  }
  const RunLog log = parse_run_log(file);
  if (log.skipped_bytes < 0 || log.skipped_bytes > static_cast<int64_t>(file.size()))
    internal_error("run log", "more bytes were skipped than there are");
  // In two pieces, by two readers, it is the same.
  struct Counter final : RunLogVisitor {
    int64_t metrics = 0, events = 0;
    void on_names(uint32_t, const std::vector<std::string>&) override {}
    void on_metrics(uint32_t, int64_t, double, std::span<const double>) override { ++metrics; }
    void on_event(std::string_view) override { ++events; }
  } whole, pieces;
  RunLogScanner at_once(whole), first(pieces), second(pieces);
  at_once.scan(file, true);
  const size_t done = first.scan(std::string_view(file).substr(0, file.size() / 2), false);
  if (!second.restore(first.saved_names())) internal_error("run log", "names that were saved cannot be restored");
  second.scan(std::string_view(file).substr(done), true);
  if (whole.metrics != pieces.metrics || whole.events != pieces.events)
    internal_error("run log", "pieces of a log give something else than the whole");
  for (const auto& name : log.names()) {
    (void)log.series(name);
    (void)log.last(name);
  }
}

RAMET_FUZZ_SEEDS(run_log) {
  const std::string names = "S" + number(1, 4) + std::string("loss\0rate\0", 10);
  std::string values = "M" + number(1, 4) + number(7, 8);
  for (int i = 0; i < 3; ++i) values += number(0x3ff0000000000000, 8);
  const std::string event = R"(J{"event":"start"})";
  return {
      .inputs = {names + "\x1e" + values + "\x1e" + event, "r" + frame(names) + frame(values) + "torn" + frame(event)},
      .words = {"RLF1", "S", "M", "J{}", "\x1e", std::string(1, '\0'), "\"event\"", number(1, 4),
                number(0xffffffff, 4)}};
}
