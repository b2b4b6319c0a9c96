#include "ramet/text/loader.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <variant>

#include "ramet/base/error.h"

namespace ramet::text {

struct Loader::State {
  std::shared_ptr<const BatchSource> source;
  int64_t next_sample, batch, left;  // left < 0: without end
  int64_t number = 0;
  std::function<bool(int64_t)> wanted;
  size_t ahead;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::variant<Batch, std::exception_ptr>> ready;
  bool stop = false, done = false;
  double waited = 0;
  std::thread thread;

  void work() {
    for (;;) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stop || ready.size() < ahead; });
        if (stop) return;
        if (left == 0) {
          done = true;
          changed.notify_all();
          return;
        }
      }
      std::variant<Batch, std::exception_ptr> made;
      try {
        if (!wanted || wanted(number))
          made = source->make(next_sample, batch);
        else
          made = Batch{.first_sample = next_sample, .count = batch, .tensors = {}};
      } catch (...) {
        made = std::current_exception();
      }
      next_sample += batch;
      ++number;
      std::lock_guard lock(mutex);
      if (left > 0) --left;
      if (made.index() == 1) left = 0;  // nothing comes after an error
      ready.push_back(std::move(made));
      changed.notify_all();
    }
  }
};

Loader::Loader(std::shared_ptr<const BatchSource> source, int64_t first_sample, int64_t batch, int ahead,
               int64_t batches, std::function<bool(int64_t)> wanted)
    : state_(std::make_unique<State>()) {
  if (ahead < 1) throw Error({.what = "a loader must be ahead by one batch or more", .found = std::to_string(ahead)});
  if (batch < 1)
    throw Error({.what = "a batch needs samples", .found = std::to_string(batch), .expected = "1 or more"});
  state_->source = std::move(source);
  state_->next_sample = first_sample;
  state_->batch = batch;
  state_->left = batches;
  state_->wanted = std::move(wanted);
  state_->ahead = static_cast<size_t>(ahead);
  state_->thread = std::thread([state = state_.get()] { state->work(); });
}

Loader::~Loader() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->changed.notify_all();
  }
  state_->thread.join();
}

Batch Loader::next() {
  std::unique_lock lock(state_->mutex);
  if (state_->ready.empty() && !state_->done) {
    const auto start = std::chrono::steady_clock::now();
    state_->changed.wait(lock, [&] { return !state_->ready.empty() || state_->done; });
    state_->waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (state_->ready.empty())
    throw Error({.what = "there is no batch after the last one", .remedy = "Ask the loader for more batches"});
  if (state_->ready.front().index() == 1) std::rethrow_exception(std::get<1>(state_->ready.front()));  // stays in front
  Batch batch = std::get<0>(std::move(state_->ready.front()));
  state_->ready.pop_front();
  state_->changed.notify_all();
  return batch;
}

double Loader::waited_seconds() const {
  std::lock_guard lock(state_->mutex);
  return state_->waited;
}

}  // namespace ramet::text
