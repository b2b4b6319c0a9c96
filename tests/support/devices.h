#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ramet/transport/transport.h"

namespace ramet::tests {

/// Runs `body` on a thread for each device; returns the message of each that threw, which has stopped the others.
inline std::vector<std::string> on_devices(Transports& endpoints, const std::function<void(size_t device)>& body) {
  std::vector<std::string> errors(endpoints.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < endpoints.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (const std::exception& error) {
        errors[i] = error.what();
        endpoints[i]->stop(errors[i]);  // or the others would wait
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline void expect_none(const std::vector<std::string>& errors) {
  for (size_t i = 0; i < errors.size(); ++i) EXPECT_EQ(errors[i], "") << "device " << i;
}

}  // namespace ramet::tests
