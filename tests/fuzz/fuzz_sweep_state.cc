#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/sweep/draw.h"
#include "ramet/sweep/sweep_state.h"

using namespace ramet::tests;

namespace {

const SweepOptions& options_of(bool halves) {
  const auto read = [](const std::string& method) {
    return ramet::sweep::parse_sweep("recipe = \"/a.toml\"\npoints = 9\nseeds = 2\nmethod = " + method +
                                         "[parameters]\n'train.clip_norm' = {low = 0, high = 1}\n",
                                     "fuzz.toml", "sweeps");
  };
  static const SweepOptions halving = read("\"halving\"\n[halving]\nsteps = 2\nfactor = 3\n"), tpe = read("\"tpe\"\n");
  return halves ? halving : tpe;
}

}  // namespace

// Events of a sweep's log, with record separators between them; the first letter says whether the sweep halves.
RAMET_FUZZ_TARGET(sweep_state, std::string_view input) {
  const SweepOptions& options = options_of(input.starts_with('h'));
  input.remove_prefix(std::min<size_t>(1, input.size()));
  ramet::sweep::SweepState state;
  while (!input.empty()) {
    const size_t cut = std::min(input.find('\x1e'), input.size());
    state.apply(input.substr(0, cut), options);
    input.remove_prefix(std::min(cut + 1, input.size()));
  }
  const auto points = std::ssize(state.points);
  const int64_t best = ramet::sweep::best_point(options, state), rungs = ramet::sweep::rungs_of(options, state);
  if (best < -1 || best >= points || rungs < 1) internal_error("sweep state", "a point or a rung that is not there");
  for (int64_t rung = 0; rung < rungs; ++rung)
    for (const int64_t point : ramet::sweep::promoted(options, state, rung))
      if (point < 0 || point >= points) internal_error("sweep state", "a point is promoted that is not there");
  if (points < options.points) (void)draw_point(options, points, ramet::sweep::tried_points(state, points));
}

RAMET_FUZZ_SEEDS(sweep_state) {
  const std::string point = R"({"event":"point_planned","time":2,"point":0,"values":{"train.clip_norm":0.5},)"
                            R"("planned_bytes":9,"steps":18,"compile_seconds":0.1})";
  const std::string events =
      R"({"event":"sweep_started","time":1,"id":"s","prefix":"s-"})"
      "\x1e" +
      point +
      "\x1e"
      R"({"event":"run_started","time":3,"point":0,"seed":0,"rung":0,"run":"s-0"})"
      "\x1e"
      R"({"event":"run_ended","time":4,"point":0,"seed":0,"status":"done","steps":2,"score":0.5,"seconds":1})"
      "\x1e"
      R"({"event":"point_scored","time":5,"point":0,"rung":0,"score":0.5,"spread":0})"
      "\x1e"
      R"({"event":"point_refused","time":6,"point":1,"values":{"train.clip_norm":1},"reason":"r"})"
      "\x1e"
      R"({"event":"sweep_resumed","time":7,"seconds":3})"
      "\x1e"
      R"({"event":"sweep_ended","time":8,"status":"done","reason":"all"})";
  return {.inputs = {"h" + events, "t" + events},
          .words = {"\x1e", "\"point\":1", "\"rung\":1", "\"seed\":1", "\"score\":null", "9223372036854775807", "-1",
                    "1e999", "\"event\":\"point_scored\"", "\"event\":\"run_started\"", "\"steps\":"}};
}
