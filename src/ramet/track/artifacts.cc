#include "ramet/track/artifacts.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "ramet/base/clock.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"

namespace ramet::track {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = 1 << 20;

struct Waiting {
  Artifact artifact;
  size_t bytes = 0;
  double time = 0;
  std::function<std::string()> contents;
  fs::path file;  ///< instead of contents
};

/// Copies a file to where its contents' hash says; returns the hash and the size.
std::pair<std::string, uint64_t> keep_file(const fs::path& file, const fs::path& folder) {
  const fs::path temporary = folder / (".copy-" + std::to_string(::getpid()));
  std::ifstream from(file, std::ios::binary);
  if (!from) throw Error({.what = "cannot read the file", .where = file.string()}, ErrorKind::kFailure);
  Hasher hasher;
  uint64_t size = 0;
  try {
    FileWriter to(temporary);
    std::string piece(kPiece, '\0');
    while (from.read(piece.data(), static_cast<std::streamsize>(piece.size())), from.gcount() > 0) {
      const std::string_view got(piece.data(), static_cast<size_t>(from.gcount()));
      hasher.update(got);
      to.write(got);
      size += got.size();
    }
    to.close();
  } catch (const Error&) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
  const std::string hash = hasher.digest().hex();
  fs::rename(temporary, folder / hash);
  sync_directory(folder);
  return {hash, size};
}

std::pair<std::string, uint64_t> keep_bytes(const std::string& bytes, const fs::path& folder) {
  const std::string hash = hash_text(bytes).hex();
  std::error_code error;
  if (fs::file_size(folder / hash, error) != bytes.size() || error) write_file_atomic(folder / hash, bytes);
  return {hash, bytes.size()};
}

}  // namespace

struct ArtifactWriter::State {
  fs::path folder;
  RunLogWriter* log = nullptr;
  mutable std::mutex mutex;
  std::condition_variable wake, idle;
  std::deque<Waiting> waiting;
  size_t bytes = 0;
  bool stop = false, working = false;
  int64_t dropped = 0;
  std::string problem;
  std::thread thread;

  bool push(Waiting one) {
    const std::lock_guard lock(mutex);
    if (bytes + one.bytes > kMostQueued || waiting.size() >= kMostWaiting) {
      ++dropped;
      return false;
    }
    bytes += one.bytes;
    one.time = seconds_since_1970();
    waiting.push_back(std::move(one));
    wake.notify_one();
    return true;
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      working = false;
      if (waiting.empty()) idle.notify_all();
      wake.wait(lock, [&] { return stop || !waiting.empty(); });
      if (waiting.empty()) return;
      Waiting one = std::move(waiting.front());
      waiting.pop_front();
      working = true;
      lock.unlock();
      std::string reason;
      try {
        keep(one);
      } catch (const std::exception& error) {
        reason = error.what();
      }
      const size_t size = one.bytes;
      one = {};
      lock.lock();
      bytes -= size;
      problem = reason;
      if (!reason.empty()) ++dropped;
    }
  }

  void keep(const Waiting& one) {
    std::error_code error;
    fs::create_directories(folder, error);
    const auto [hash, size] = one.contents ? keep_bytes(one.contents(), folder) : keep_file(one.file, folder);
    nlohmann::ordered_json event = {
        {"event", "logged"}, {"kind", one.artifact.kind}, {"name", one.artifact.name}, {"step", one.artifact.step},
        {"time", one.time},  {"artifact", hash},          {"type", one.artifact.type}, {"bytes", size}};
    if (!one.artifact.caption.empty()) event["caption"] = one.artifact.caption;
    if (!one.artifact.more.empty()) event.update(nlohmann::ordered_json::parse(one.artifact.more));
    if (!log->offer(event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)))
      throw Error({.what = "the run's log takes no more"}, ErrorKind::kFailure);
  }
};

ArtifactWriter::ArtifactWriter(fs::path run, RunLogWriter& log) : state_(std::make_unique<State>()) {
  state_->folder = std::move(run) / "artifacts";
  state_->log = &log;
  state_->thread = std::thread([this] { state_->work(); });
}

ArtifactWriter::~ArtifactWriter() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->wake.notify_one();
  }
  state_->thread.join();
}

bool ArtifactWriter::offer(Artifact artifact, size_t bytes, std::function<std::string()> contents) {
  return state_->push({.artifact = std::move(artifact), .bytes = bytes, .contents = std::move(contents), .file = {}});
}

bool ArtifactWriter::offer_file(Artifact artifact, fs::path file) {
  return state_->push({.artifact = std::move(artifact), .contents = {}, .file = std::move(file)});
}

bool ArtifactWriter::flush() {
  std::unique_lock lock(state_->mutex);
  const int64_t before = state_->dropped;
  state_->idle.wait(lock, [&] { return state_->waiting.empty() && !state_->working; });
  const bool all = state_->dropped == before;
  lock.unlock();
  return state_->log->flush() && all;
}

int64_t ArtifactWriter::dropped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

std::string ArtifactWriter::problem() const {
  const std::lock_guard lock(state_->mutex);
  return state_->problem;
}

}  // namespace ramet::track
