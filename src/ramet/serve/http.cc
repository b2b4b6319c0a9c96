#include "ramet/serve/http.h"

#include <algorithm>
#include <cstring>

#include "ramet/serve/url.h"

namespace ramet::serve {

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (same_letters(key, name)) return value;
  return "";
}

int HttpRequest::count(std::string_view name) const {
  return static_cast<int>(std::count_if(headers.begin(), headers.end(),
                                        [&](const auto& header) { return same_letters(header.first, name); }));
}

bool EventStream::write(std::string_view text) {
  std::function<void()> wake;
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  if (waiting_.size() + text.size() > kMostWaiting) {
    overflowed_ = closed_ = true;
    waiting_.clear();
  } else {
    waiting_ += text;
  }
  // Under the lock, so that the connection cannot go away in between.
  if (wake_) std::exchange(wake_, nullptr)();
  return !closed_;
}

void EventStream::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  if (wake_) std::exchange(wake_, nullptr)();
}

bool EventStream::ended() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

std::optional<size_t> EventStream::take(char* to, size_t most, const std::function<void()>& sleep,
                                        std::function<void()> wake) {
  std::lock_guard lock(mutex_);
  const size_t size = std::min(most, waiting_.size());
  if (size > 0) {
    std::memcpy(to, waiting_.data(), size);
    waiting_.erase(0, size);
    return size;
  }
  if (closed_) return std::nullopt;
  sleep();
  wake_ = std::move(wake);
  return 0;
}

void EventStream::abandon() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  wake_ = nullptr;
  waiting_.clear();
}

bool EventStream::overflowed() const {
  std::lock_guard lock(mutex_);
  return overflowed_;
}

}  // namespace ramet::serve
