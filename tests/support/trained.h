#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ramet/train/training.h"

namespace ramet::tests {

/// What a few steps of training gave; all of it is the same on every layout.
struct Trained {
  std::vector<double> losses, norms;
  Numbers evaluation;
  std::string hash;
};

inline Trained train_steps(Training& training, int steps) {
  Trained trained;
  for (int i = 0; i < steps; ++i) {
    const Numbers numbers = training.step();
    trained.losses.push_back(number_of(numbers, "loss"));
    trained.norms.push_back(number_of(numbers, "grad_norm"));
  }
  trained.evaluation = training.evaluate();
  trained.hash = training.weights_hash();
  return trained;
}

inline void expect_same(const Trained& found, const Trained& expected) {
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.norms, expected.norms);
  EXPECT_EQ(found.evaluation, expected.evaluation);
  EXPECT_EQ(found.hash, expected.hash);
}

}  // namespace ramet::tests
