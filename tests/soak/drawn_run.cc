#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "ramet/base/error.h"
#include "ramet/recipe/recipe.h"
#include "ramet/train/training.h"
#include "soak/drawn_case.h"
#include "support/temporary.h"

namespace ramet::tests::soak {
namespace {

constexpr int kSteps = 2, kStepsOfPrograms = 4;  // programs run every three steps
constexpr std::chrono::milliseconds kDeviceLimit{30'000};  // longest wait of a device for another
constexpr int kCaseSeconds = 120;                          // longest time for a case of some milliseconds

/// The options of a case, in a recipe's words.
TrainOptions options_of(const DrawnCase& given) {
  std::vector<std::string> settings = {"train.steps=10",
                                       "train.schedule.learning_rate=0.01",
                                       "train.schedule.kind=constant",
                                       "train.precision=f32",
                                       "train.clip_norm=0",
                                       "train.seed=5",
                                       "train.optimizer.kind=sgd",
                                       "train.evaluation.batches=3",
                                       "train.micro_batch=" + given.model.word("batch")};
  for (const auto& [key, value] : given.recipe) settings.push_back(key + "=" + value);
  return parse_recipe("", "drawn.toml", ".", settings).train;
}

Workload workload_of(const DrawnCase& given) {
  Workload workload;
  workload.model = build(given.model);
  workload.train = make_batches(given.model, 1);
  workload.held_out = make_batches(given.model, 2);
  workload.units = {.name = "tokens", .per_sample = given.model.number("sequence")};
  return workload;
}

/// What was measured of time is not of the model.
Numbers without_times(Numbers numbers) {
  std::erase_if(numbers, [](const auto& number) {
    const std::string& name = number.first;
    return name.ends_with("seconds") || name.ends_with("per_second") || name == "bubble";
  });
  return numbers;
}

/// "name: a and b" of the first number that differs, but for times.
std::string first_difference(const Numbers& with_times, const Numbers& expected_with_times) {
  const Numbers found = without_times(with_times), expected = without_times(expected_with_times);
  if (found.size() != expected.size())
    return "other numbers: " + std::to_string(found.size()) + " and " + std::to_string(expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].first != expected[i].first) return found[i].first + " where one device has " + expected[i].first;
    if (std::memcmp(&found[i].second, &expected[i].second, sizeof(double)) == 0) continue;
    return found[i].first + ": " + std::to_string(found[i].second) + ", on one device " +
           std::to_string(expected[i].second);
  }
  return "";
}

std::vector<std::byte> state_of(const Training& trainer, const StateTensor& state) {
  std::vector<std::byte> bytes(static_cast<size_t>(state.type.bytes()));
  trainer.read_state(state.name, bytes);
  return bytes;
}

/// The first weight or moment that differs, and how many more.
std::string first_difference(const Training& found, const Training& expected) {
  std::string first;
  int more = -1;
  for (const StateTensor& state : expected.compiled().states) {
    const auto a = state_of(found, state), b = state_of(expected, state);
    if (a == b) continue;
    if (++more > 0) continue;
    const size_t at =
        static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin()) / sizeof(float);
    float x = 0, y = 0;
    std::memcpy(&x, a.data() + at * sizeof(float), sizeof(float));
    std::memcpy(&y, b.data() + at * sizeof(float), sizeof(float));
    first = "'" + state.name + "' " + state.type.text() + " element " + std::to_string(at) + ": " + std::to_string(x) +
            ", on one device " + std::to_string(y);
  }
  return first.empty() || more == 0 ? first : first + ", and " + std::to_string(more) + " more tensors";
}

std::string check_arenas(const Training& trainer) {
  const Cluster& cluster = trainer.cluster();
  for (size_t device = 0; device < cluster.arena_bytes().size(); ++device) {
    const int64_t planned =
        cluster.stages()[static_cast<size_t>(cluster.mesh().position(static_cast<int>(device)).stage)].planned_bytes();
    if (cluster.arena_bytes()[device] != planned)
      return "device " + std::to_string(device) + ": planned " + std::to_string(planned) + " bytes, arena of " +
             std::to_string(cluster.arena_bytes()[device]);
  }
  return "";
}

Verdict wrong(const std::string& text) { return {Verdict::Kind::kWrong, text}; }

/// One step of both; empty when all is equal.
Verdict compare_step(Training& one, Training& many) {
  Numbers expected;
  try {
    expected = one.step();
  } catch (const Error& error) {
    return {Verdict::Kind::kVoid, error.what()};
  }
  const Numbers found = many.step();
  const std::string at = "step " + std::to_string(one.steps_done()) + ": ";
  const std::string numbers = first_difference(found, expected), states = first_difference(many, one);
  if (!numbers.empty() || !states.empty())
    return wrong(at + numbers + (numbers.empty() || states.empty() ? "" : "; ") + states);
  if (many.weights_hash() != one.weights_hash()) return wrong(at + "weights of equal bits have another hash");
  return {};
}

Verdict compare(Training& one, Training& many, int steps) {
  if (const std::string text = check_arenas(many); !text.empty()) return wrong(text);
  for (int step = 0; step < steps; ++step)
    if (Verdict verdict = compare_step(one, many); verdict.kind != Verdict::Kind::kSame) return verdict;
  if (const std::string text = first_difference(many.evaluate(), one.evaluate()); !text.empty())
    return wrong("evaluation: " + text);
  return {};
}

/// The case's training on a layout, or the verdict of why there is none.
std::unique_ptr<Training> make_training(const DrawnCase& given, const std::map<std::string, std::string>& layout,
                                        const std::string& folder, Verdict& refusal) {
  std::string text;
  for (const auto& [key, value] : layout) text += key + "=" + value + " ";
  if (!layout.count("threads")) text += "threads=1";
  if (const size_t at = text.find("FILES"); at != std::string::npos) text.replace(at, 5, folder);
  try {
    return std::make_unique<Training>(workload_of(given), options_of(given), parse_layout(text),
                                      Where{.time_limit = kDeviceLimit, .layout_source = "--layout"});
  } catch (const Error& error) {
    const ErrorParts& parts = error.parts();
    const bool helps =
        error.kind() == ErrorKind::kUsage && !parts.where.empty() && !(parts.remedy.empty() && parts.expected.empty());
    refusal = {helps ? Verdict::Kind::kRefused : Verdict::Kind::kWrong, error.what()};
    return nullptr;
  }
}

}  // namespace

Verdict run(const DrawnCase& given) {
  const TemporaryFolder folder;
  std::optional<Workload> reference;
  TrainOptions options;
  try {
    options = options_of(given);
    reference = workload_of(given);
  } catch (const Error& error) {
    return {Verdict::Kind::kVoid, error.what()};
  }
  try {
    Training one(std::move(*reference), options, Layout{}, {.threads = 1});
    one.initialize();
    Verdict verdict;
    auto many = make_training(given, given.layout, folder.path().string(), verdict);
    if (!many) return verdict;
    many->initialize();
    verdict = compare(one, *many, one.model().programs.empty() ? kSteps : kStepsOfPrograms);
    if (verdict.kind != Verdict::Kind::kSame || given.second.empty()) return verdict;
    const auto saved = many->save(folder / "checkpoints");
    many.reset();
    many = make_training(given, given.second, folder.path().string(), verdict);
    if (!many) return verdict;
    if (const std::string warnings = many->restore(Checkpoint(saved)); !warnings.empty()) return wrong(warnings);
    verdict = compare(one, *many, 1);
    if (verdict.kind == Verdict::Kind::kWrong) verdict.text = "on the second layout: " + verdict.text;
    return verdict;
  } catch (const std::exception& error) {
    return wrong(error.what());
  }
}

Verdict run_apart(const DrawnCase& given) {
  int ends[2];
  if (::pipe(ends) != 0) return wrong("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    const Verdict verdict = run(given);
    const std::string text = std::to_string(static_cast<int>(verdict.kind)) + verdict.text;
    const bool told = ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(told ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  char piece[4096];
  bool late = false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kCaseSeconds);
  for (ssize_t size = 1; size > 0;) {
    pollfd waits{ends[0], POLLIN, 0};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    late = left <= 0 || ::poll(&waits, 1, static_cast<int>(left)) == 0;
    if (late) break;
    size = ::read(ends[0], piece, sizeof(piece));
    if (size > 0) text.append(piece, static_cast<size_t>(size));
  }
  if (late) ::kill(child, SIGKILL);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (late) return wrong("no end after " + std::to_string(kCaseSeconds) + " s");
  if (WIFSIGNALED(status))
    return wrong("ended by signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) + ")");
  if (text.empty() || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return wrong("ended with status " + std::to_string(WEXITSTATUS(status)));
  return {static_cast<Verdict::Kind>(text[0] - '0'), text.substr(1)};
}

}  // namespace ramet::tests::soak
