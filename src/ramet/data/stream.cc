#include "ramet/data/stream.h"

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

#include "ramet/base/error.h"

namespace ramet::data {

struct StreamSource::State {
  explicit State(StreamOptions how) : options(std::move(how)) {
    const auto refuse = [&](const char* what, int64_t found) {
      throw Error({.what = what, .where = options.name, .found = std::to_string(found), .expected = "1 or more"});
    };
    if (options.batch < 1) refuse("a batch of a stream needs samples", options.batch);
    if (options.capacity < 1) refuse("a stream needs room for a batch", options.capacity);
    check_samples(options.first_sample, options.batch);
    if (options.first_sample % options.batch != 0)
      throw Error({.what = "a stream begins within a batch",
                   .where = options.name,
                   .found = "sample " + std::to_string(options.first_sample),
                   .expected = "a multiple of " + std::to_string(options.batch)});
    for (int64_t i = 0; i < options.capacity; ++i) slots.emplace_back(options.signature);
    pushed = taken = options.first_sample / options.batch;
  }

  void check(std::span<const std::span<const std::byte>> tensors) const {
    if (tensors.size() != options.signature.size())
      throw Error({.what = "a batch has another number of tensors than the stream's signature",
                   .where = options.name,
                   .found = std::to_string(tensors.size()),
                   .expected = std::to_string(options.signature.size())});
    for (size_t i = 0; i < tensors.size(); ++i)
      if (const auto& [name, type] = options.signature[i]; std::ssize(tensors[i]) != type.bytes())
        throw Error({.what = "a tensor of a batch has another size than its type",
                     .where = options.name + ": '" + name + "'",
                     .found = std::to_string(tensors[i].size()) + " bytes",
                     .expected = std::to_string(type.bytes()) + " bytes, " + type.text()});
    if (ended) throw Error({.what = "a batch was pushed after the end of the stream", .where = options.name});
  }
  BatchMemory& slot_of(int64_t number) { return slots[static_cast<size_t>(number % options.capacity)]; }
  bool full() const { return pushed - taken == options.capacity; }

  void put(std::span<const std::span<const std::byte>> tensors) {
    const auto places = slot_of(pushed).tensors();
    for (size_t i = 0; i < tensors.size(); ++i)
      if (!tensors[i].empty()) std::memcpy(places[i], tensors[i].data(), tensors[i].size());
    ++pushed;
    changed.notify_all();
  }

  StreamOptions options;
  std::mutex mutex;
  std::condition_variable_any changed;
  std::vector<BatchMemory> slots;
  int64_t pushed = 0, taken = 0;  // numbers of the next batch to come and to go
  bool ended = false;
  std::exception_ptr error;
};

StreamSource::StreamSource(StreamOptions options) : state_(std::make_unique<State>(std::move(options))) {}
StreamSource::~StreamSource() = default;

void StreamSource::push(std::span<const std::span<const std::byte>> tensors) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return !state_->full() || state_->ended; });
  state_->check(tensors);
  state_->put(tensors);
}

bool StreamSource::try_push(std::span<const std::span<const std::byte>> tensors) {
  const std::lock_guard lock(state_->mutex);
  state_->check(tensors);
  if (state_->full()) return false;
  state_->put(tensors);
  return true;
}

void StreamSource::finish() { fail(nullptr); }

void StreamSource::fail(std::exception_ptr error) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->ended) state_->error = std::move(error);
  state_->ended = true;
  state_->changed.notify_all();
}

int64_t StreamSource::position() const {
  const std::lock_guard lock(state_->mutex);
  return state_->pushed * state_->options.batch;
}

Signature StreamSource::signature(int64_t count) const {
  if (count != state_->options.batch)
    throw Error({.what = "a stream gives batches of one size",
                 .where = state_->options.name,
                 .found = std::to_string(count) + " samples",
                 .expected = std::to_string(state_->options.batch)});
  return state_->options.signature;
}

void StreamSource::fill(int64_t first, int64_t count, const Places& places) const {
  State& state = *state_;
  const Signature types = signature(count);
  const int64_t number = first / count;
  std::unique_lock lock(state.mutex);
  if (first % count != 0 || number < state.taken)
    throw Error({.what = "samples of a stream cannot be read again",
                 .where = state.options.name,
                 .found = "sample " + std::to_string(first),
                 .expected = std::to_string(state.taken * count) + " or a later batch"});
  while (state.taken <= number) {
    state.changed.wait(lock, places.stop, [&] { return state.pushed > state.taken || state.ended; });
    if (state.pushed > state.taken) {
      if (state.taken == number)
        for (size_t i = 0; i < types.size(); ++i)
          std::memcpy(places.tensors[i], state.slot_of(number).tensors()[i],
                      static_cast<size_t>(types[i].second.bytes()));
      ++state.taken;
      state.changed.notify_all();
      continue;
    }
    if (state.error) std::rethrow_exception(state.error);
    throw Error({.what = state.ended ? "the stream has ended" : "nobody waits for the stream any more",
                 .where = state.options.name,
                 .found = std::to_string(state.pushed * count) + " samples",
                 .expected = "sample " + std::to_string(first),
                 .remedy = state.ended ? "Push more batches, or train for fewer steps" : ""});
  }
}

Hash StreamSource::identity() const {
  Hasher hasher;
  hasher.update("stream\n").update(state_->options.name);
  for (const auto& [name, type] : state_->options.signature) hasher.update("\n" + name + " " + type.text());
  return hasher.digest();
}

int64_t StreamSource::first_sample() const { return state_->options.first_sample; }

int64_t StreamSource::host_bytes() const { return state_->options.capacity * place_bytes(state_->options.signature); }

}  // namespace ramet::data
