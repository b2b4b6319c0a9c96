#pragma once

#include <map>
#include <string>
#include <vector>

namespace ramet::tests {

/// The result of a case, and the gradient of each input of its weighted sum (indexing_test.cc).
struct PeerValues {
  std::vector<double> result;
  std::vector<std::vector<double>> gradients;
};
/// By name of the case.
const std::map<std::string, PeerValues>& indexing_peer_values();

}  // namespace ramet::tests
