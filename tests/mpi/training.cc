#include "mpi/training.h"

#include <atomic>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <thread>

#include "ramet/data/stream.h"
#include "ramet/train/feeder.h"
#include "ramet/train/training.h"
#include "support/parts_workload.h"

namespace ramet::tests {
namespace {

constexpr int64_t kLooks = 5;  // micro-batches of a request: no multiple of the replicas

Where where_of(MpiSession* mpi) { return {.threads = 1, .mpi = mpi}; }

/// Whole lines, so that those of several ranks do not mix.
void print_line(const std::string& text) {
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}

/// Every bit of a number.
std::string exact_text(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}

void print_numbers(const std::string& what, const Numbers& numbers) {
  std::string line = what;
  for (const auto& [name, value] : numbers)
    if (!name.ends_with("seconds") && !name.ends_with("per_second") && name != "bubble")
      line += " " + name + "=" + exact_text(value);
  print_line(line);
}

std::vector<ResultTensors> look(Training& training, const std::shared_ptr<const Source>& source, bool everywhere) {
  Feeder feeder(source, training.cluster(), {.micro_batch = parts::kBatch, .program = "look", .count = kLooks});
  feeder.begin(0);
  return training.cluster().run("look", kLooks, feeder.feed(), {}, {.everywhere = everywhere});
}

std::string hash_of(const ResultTensor& tensor) { return hash_bytes(tensor.bytes.data(), tensor.bytes.size()).hex(); }

}  // namespace

void check_training(MpiSession* mpi, const std::string& layout) {
  Training training(parts::parts_workload(), parts::parts_options(), parse_layout(layout), where_of(mpi));
  training.initialize();
  const bool leads = training.cluster().leads();
  for (int64_t step = 1; step <= training.options().steps; ++step) {
    const Numbers numbers = training.step();
    if (leads) print_numbers("step " + std::to_string(step) + ":", numbers);
  }
  const Numbers evaluation = training.evaluate();
  if (leads) print_numbers("evaluation:", evaluation);
  for (const StateTensor& state : training.compiled().states) {
    if (state.kind == StateKind::kConstant) continue;
    std::vector<std::byte> bytes(static_cast<size_t>(state.type.bytes()));
    training.read_state(state.name, bytes);
    if (leads) print_line(state.name + " " + state.type.text() + " " + hash_bytes(bytes.data(), bytes.size()).hex());
  }
  const std::string hash = training.weights_hash();
  if (leads) print_line("weights " + hash);
}

void check_tensors(MpiSession* mpi, const std::string& layout) {
  Training training(parts::parts_workload(), parts::parts_options(), parse_layout(layout), where_of(mpi));
  training.initialize();
  training.step();
  const bool leads = training.cluster().leads();
  const auto source = std::make_shared<parts::PartsSource>();
  const std::vector<ResultTensors> own = look(training, source, false);
  for (size_t micro = 0; micro < own.size(); ++micro) {
    if (!leads && !own[micro].empty()) throw Error({.what = "a rank that does not lead was given tensors"});
    std::map<std::string, std::string> lines;  // stages give their results in an order of their own
    for (const ResultTensor& tensor : own[micro]) lines[tensor.name] = tensor.type.text() + " " + hash_of(tensor);
    for (const auto& [name, text] : lines) print_line(std::to_string(micro) + " " + name + " " + text);
  }
  Hasher hasher;
  std::map<std::string, std::string> hashes;
  for (const ResultTensors& tensors : look(training, source, true))
    for (const ResultTensor& tensor : tensors) hashes[tensor.name] += hash_of(tensor);
  for (const auto& [name, text] : hashes) hasher.update(name).update(text);
  print_line("everywhere " + hasher.digest().hex());
}

namespace {

constexpr int64_t kFaultySample = 13;        // of the second step; with r=2 the second replica reads it
constexpr int64_t kFaultyHeldOutSample = 3;  // of evaluations and requests, likewise

/// Fails where it is asked for numbers.
struct FaultyEvaluator final : Evaluator {
  std::string program() const override { return "evaluate"; }
  Numbers evaluate(Cluster&) override { throw Error({.what = "the answers cannot be judged"}); }
};

struct FaultySource {
  parts::PartsSource& source;
  int64_t sample = 0;                                ///< that is wrong
  std::shared_ptr<const std::atomic<bool>> began{};  ///< whether the training has been made
};

/// What can be wrong with a source, by name.
const std::map<std::string, std::function<void(const FaultySource&)>>& faults_of_sources() {
  static const std::map<std::string, std::function<void(const FaultySource&)>> faults = {
      {"error",
       [](const FaultySource& of) {
         of.source.before = [at = of.sample](int64_t sample) {
           if (sample == at) throw Error({.what = "a file ends early", .where = "sample " + std::to_string(sample)});
         };
       }},
      {"exception",  // of a caller who does not know our errors
       [](const FaultySource& of) {
         of.source.before = [at = of.sample](int64_t sample) {
           if (sample == at) throw std::runtime_error("the network has gone");
         };
       }},
      {"outside", [](const FaultySource& of) { of.source.outside = of.sample; }},
      {"name", [](const FaultySource& of) { of.source.described = [](Signature& all) { all[1].first = "kinds"; }; }},
      {"type",
       [](const FaultySource& of) { of.source.described = [](Signature& all) { all[1].second.dtype = DType::kI64; }; }},
      {"shape",
       [](const FaultySource& of) {
         of.source.described = [](Signature& all) { all[0].second.shape = {parts::kBatch, 7}; };
       }},
      {"signature",  // right while the training is made, and then no more to be had
       [](const FaultySource& of) {
         of.source.described = [began = of.began](Signature&) {
           if (*began) throw Error({.what = "the description of the samples is lost"});
         };
       }},
  };
  return faults;
}

/// Samples through a stream whose second step has a tensor of a wrong size.
class Pusher {
 public:
  Pusher(bool faulty, int64_t batches)
      : stream(std::make_shared<StreamSource>(StreamOptions{
            .name = "the rows of a caller", .signature = source_.signature(parts::kBatch), .batch = parts::kBatch})),
        thread_([this, faulty, batches] { push(faulty, batches); }) {}
  ~Pusher() {
    stream->finish();
    thread_.join();
  }

 private:
  void push(bool faulty, int64_t batches) {
    try {
      for (int64_t i = 0; i < batches; ++i) {
        const Batch batch = source_.make(i * parts::kBatch, parts::kBatch);
        std::vector<std::span<const std::byte>> tensors(batch.tensors.size());
        for (size_t t = 0; t < tensors.size(); ++t) tensors[t] = batch.tensors[t].bytes;
        if (faulty && i * parts::kBatch >= kFaultySample) tensors[1] = tensors[1].first(4);
        stream->push(tensors);
      }
    } catch (...) {
      stream->fail(std::current_exception());
    }
  }

  parts::PartsSource source_;

 public:
  const std::shared_ptr<StreamSource> stream;

 private:
  std::thread thread_;
};

/// A request that a caller feeds by hand.
void look_by_hand(Training& training, const std::string& fault) {
  const parts::PartsSource source;
  training.cluster().run("look", kLooks, [&](int64_t micro, const Executable&, FeedSink& sink) {
    for (NamedTensor& tensor : source.make(micro * parts::kBatch, parts::kBatch).tensors) {
      if (micro == 3 && tensor.name == "scales") {
        if (fault == "fed name") tensor.name = "scale";
        if (fault == "fed type") tensor.type.dtype = DType::kI32;
        if (fault == "fed shape") tensor.type.shape = {parts::kFeatures, parts::kBatch};
        if (fault == "fed too little") continue;
      }
      sink.set(tensor.name, tensor.type, tensor.bytes.data());
    }
  });
}

}  // namespace

void check_fault(MpiSession* mpi, const std::string& layout, const std::string& fault, int rank) {
  const bool here = rank < 0 || (mpi ? mpi->rank() : 0) == rank;
  const std::string first = fault.substr(0, fault.find(' ')), rest = fault.substr(fault.find(' ') + 1);
  const auto train = std::make_shared<parts::PartsSource>(), held_out = std::make_shared<parts::PartsSource>(),
             asked = std::make_shared<parts::PartsSource>();
  const auto began = std::make_shared<std::atomic<bool>>(false);
  // "held-out error", "asked error": of an evaluation, of a request.
  const auto& faulty = first == "held-out" ? held_out : first == "asked" ? asked : train;
  const auto known = faults_of_sources().find(rest);
  if (here && first != "fed" && known != faults_of_sources().end())
    known->second({*faulty, faulty == train ? kFaultySample : kFaultyHeldOutSample, began});
  Workload workload = parts::parts_workload(train, held_out);
  std::unique_ptr<Pusher> pusher;
  if (fault == "stream") {
    pusher = std::make_unique<Pusher>(here, parts::parts_options().steps * parts::parts_options().accumulation);
    workload.train = pusher->stream;
  }
  if (fault == "evaluator" && here) workload.evaluator = std::make_unique<FaultyEvaluator>();
  Training training(std::move(workload), parts::parts_options(), parse_layout(layout), where_of(mpi));
  training.initialize();
  *began = true;
  for (int64_t step = 0; step < training.options().steps; ++step) training.step();
  training.evaluate();
  look(training, asked, false);
  look_by_hand(training, here ? fault : "");
}

}  // namespace ramet::tests
