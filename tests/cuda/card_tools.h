#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ramet/base/host_tensor.h"
#include "ramet/device/device.h"
#include "ramet/ir/op.h"

// Tests of the device `cuda`: by default on the fake card (tests/fake_cuda), with RAMET_TEST_CARD=1 on a true one.

namespace ramet::tests {

/// The card, once a process.
Device& card_device();

/// How two results are compared.
enum class Bits {
  kAll,     ///< every bit
  kAnyNan,  ///< every bit, but a NaN equals any NaN: a card's arithmetic gives 7fffffff where a CPU gives other ones
};

struct CardChoices {
  bool must_be_on_card = true;  ///< the host's kernels ("host:NAME") are a failure
  Bits bits = Bits::kAnyNan;
  bool aliases = true;  ///< run a second time, with outputs in the memory of the inputs where the kernel allows it
};

/// Which kernel of cuda_backend() ran; "" when the host's class takes no such node either.
struct CardRun {
  std::string kernel;
  bool on_card = false;
};

/// Runs the node by hopper_backend() on the host and by cuda_backend() on the card, and expects the same bits in all
/// outputs, nothing written outside of them, and inputs as they were.
CardRun expect_card_equals_host(const NodeSignature& node, const std::vector<HostTensor>& inputs,
                                const CardChoices& choices = {});

/// The outputs on the card alone.
std::vector<HostTensor> run_on_card(const NodeSignature& node, const std::vector<HostTensor>& inputs,
                                    bool aliases = false);

/// "" where all bits are equal, or else the first that differ.
std::string compare_bits(const HostTensor& found, const HostTensor& expected, Bits bits);

/// A tensor whose bits are drawn at random: for floating types every pattern, NaN, infinities and subnormals included.
HostTensor random_bits(DType dtype, Shape shape, uint64_t which);

}  // namespace ramet::tests
