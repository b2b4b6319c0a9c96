#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/track/run_record.h"

using namespace ramet::tests;

namespace {

std::string number(uint64_t value, size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(value >> 8 * i);
  return text;
}

std::string event_frame(const std::string& event) {
  const std::string payload = "J" + event;
  return "RLF1" + number(payload.size(), 4) + number(crc32c(payload.data(), payload.size()), 4) + payload;
}

}  // namespace

// The files of a run's folder, with record separators between them: run.json, machine.json, recipe.toml, and one event
// after another.
RAMET_FUZZ_TARGET(run_record, std::string_view input) {
  const auto folder = fuzz::empty_folder("runs") / "run";
  std::filesystem::create_directories(folder / "checkpoints" / "step-00000004");
  std::string log;
  for (int i = 0; !input.empty(); ++i) {
    const size_t cut = std::min(input.find('\x1e'), input.size());
    const std::string piece(input.substr(0, cut));
    input.remove_prefix(std::min(cut + 1, input.size()));
    if (i < 3)
      write_file_atomic(folder / (i == 0 ? "run.json" : i == 1 ? "machine.json" : "recipe.toml"), piece);
    else
      log += event_frame(piece);
  }
  write_file_atomic(folder / "log.ramet", log);
  const ramet::track::RunRecord run = ramet::track::read_run(folder);
  (void)run.recipe_value("train.steps");
  (void)ramet::track::export_csv(run);
  if (ramet::track::export_json(run).empty()) internal_error("export_json", "nothing");
  (void)ramet::track::list_runs(folder.parent_path());
}

RAMET_FUZZ_SEEDS(run_record) {
  return {.inputs = {R"({"name":"a","started":"2026-01-01T00:00:00Z","version":"0.1.0","kernel_class":"avx2",)"
                     R"("command":["ramet","train"],"git":{"commit":"abc","changed":true}})"
                     "\x1e{\"processor\":\"p\"}\x1e[train]\nsteps = 4\n\x1e"
                     R"({"event":"start","planned_bytes":12,"weights_hash":"00"})"
                     "\x1e"
                     R"({"event":"end","status":"done","error":"","seconds":1.5})"},
          .words = {"\"event\"", "\"end\"", "\"start\"", "\"status\"", "\"command\":", "\"git\":", "null", "[", "{",
                    "\x1e", "1e999", "-1", "\\ud800", "\\u0000", " = ", "[train]\n"}};
}
