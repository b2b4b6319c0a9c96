#include "cuda/card_tools.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/cuda/cuda.h"
#include "ramet/kernel/devices.h"
#include "ramet/kernel/hopper/hopper.h"
#include "ramet/kernel/interpret.h"
#include "support/test_card.h"

namespace ramet::tests {
namespace {

/// Before anything asks for the driver.
[[maybe_unused]] const std::string no_card = [] {
  // Code for the fake card stays with this build; that of a watch for races is other code.
  const bool races = std::getenv("RAMET_FAKE_CUDA_RACES") != nullptr;
  const std::string cache = std::string(RAMET_BINARY_DIR) + (races ? "/fake_cuda/races" : "/fake_cuda");
  if (!has_real_card()) setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  return choose_test_card();
}();

constexpr int kThreads = 2;
constexpr int64_t kMargin = 448;     // bytes around each tensor that nobody may touch
constexpr int64_t kAlignment = 128;  // tensors begin 64 bytes behind a multiple of it: more is not promised
constexpr uint8_t kUntouched = 0xa5;

/// Where tensors lie in one block of the card's memory.
class Places {
 public:
  int64_t add(int64_t bytes) {
    const int64_t place = (end_ + kMargin + kAlignment - 1) / kAlignment * kAlignment + kAlignment / 2;
    ranges_.push_back({place, bytes});
    end_ = place + bytes;
    return place;
  }
  int64_t bytes() const { return end_ + kMargin; }
  /// Whether a byte is in none of them.
  bool is_margin(int64_t offset) const {
    for (const auto& [place, bytes] : ranges_)
      if (offset >= place && offset < place + bytes) return false;
    return true;
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> ranges_;
  int64_t end_ = 0;
};

struct Layout {
  Places places;
  std::vector<int64_t> inputs, outputs;
  std::vector<bool> shared;  ///< inputs whose memory an output has
  int64_t scratch = 0;
};

Layout layout_of(const NodeSignature& node, const program::KernelChoice& choice, bool aliases) {
  Layout layout;
  for (const TensorType& type : node.inputs) layout.inputs.push_back(layout.places.add(type.bytes()));
  layout.shared.assign(node.inputs.size(), false);
  layout.outputs.assign(node.outputs.size(), -1);
  if (aliases)
    for (const auto& [input, output] : choice.may_alias) {
      const auto from = static_cast<size_t>(input), to = static_cast<size_t>(output);
      if (layout.shared[from] || layout.outputs[to] >= 0 || node.inputs[from].bytes() != node.outputs[to].bytes())
        continue;
      layout.outputs[to] = layout.inputs[from];
      layout.shared[from] = true;
    }
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (layout.outputs[i] < 0) layout.outputs[i] = layout.places.add(node.outputs[i].bytes());
  layout.scratch = layout.places.add(choice.scratch_bytes);
  return layout;
}

/// Expects the margins and the inputs to be as they were.
void expect_untouched(const Layout& layout, const std::vector<HostTensor>& inputs, const std::vector<std::byte>& before,
                      const std::vector<std::byte>& after, const std::string& what) {
  for (size_t i = 0; i < after.size(); ++i)
    if (after[i] != before[i] && layout.places.is_margin(static_cast<int64_t>(i))) {
      ADD_FAILURE() << what << ": byte " << i << " was written, which is in no operand";
      break;
    }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!layout.shared[i]) {
      EXPECT_EQ(
          std::memcmp(&after[static_cast<size_t>(layout.inputs[i])], inputs[i].data.data(), inputs[i].data.size()), 0)
          << what << ": input " << i << " was written";
    }
}

template <typename Unsigned>
Unsigned bits_at(const HostTensor& tensor, int64_t index) {
  Unsigned bits;
  std::memcpy(&bits, &tensor.data[static_cast<size_t>(index) * sizeof(Unsigned)], sizeof(bits));
  return bits;
}

uint64_t bits_of(const HostTensor& tensor, int64_t index) {
  switch (size_of(tensor.type.dtype)) {
    case 1: return bits_at<uint8_t>(tensor, index);
    case 2: return bits_at<uint16_t>(tensor, index);
    case 4: return bits_at<uint32_t>(tensor, index);
    default: return bits_at<uint64_t>(tensor, index);
  }
}

bool has_aliases(const NodeSignature& node, const program::KernelChoice& choice) {
  return std::any_of(choice.may_alias.begin(), choice.may_alias.end(), [&](const auto& pair) {
    return node.inputs[static_cast<size_t>(pair.first)].bytes() ==
           node.outputs[static_cast<size_t>(pair.second)].bytes();
  });
}

}  // namespace

Device& card_device() {
  static const std::unique_ptr<Device> device = find_device("cuda").make(kThreads);
  return *device;
}

std::vector<HostTensor> run_on_card(const NodeSignature& node, const std::vector<HostTensor>& inputs, bool aliases) {
  Device& device = card_device();
  const program::KernelChoice choice = cuda_backend().choose(node, kThreads);
  const std::unique_ptr<Kernel> kernel = cuda_backend().make(node, kThreads);
  const Layout layout = layout_of(node, choice, aliases);
  const auto size = static_cast<size_t>(layout.places.bytes());
  std::vector<std::byte> before(size, std::byte{kUntouched}), after(size);
  for (size_t i = 0; i < inputs.size(); ++i)
    std::copy(inputs[i].data.begin(), inputs[i].data.end(), before.begin() + layout.inputs[i]);

  const DeviceMemory memory = device.take(layout.places.bytes(), Memory::kDevice, "a test");
  static const std::unique_ptr<Queue> queue = device.make_queue();  // once a process
  queue->copy_in(memory.data(), before.data(), memory.bytes());
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const int64_t place : layout.inputs) in.push_back(memory.data() + place);
  for (const int64_t place : layout.outputs) out.push_back(memory.data() + place);
  queue->launch(*kernel, {in, out, memory.data() + layout.scratch});
  queue->copy_out(after.data(), memory.data(), memory.bytes());

  const std::string what = node.text() + " by " + choice.name;
  expect_untouched(layout, inputs, before, after, what);
  std::vector<HostTensor> results;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    HostTensor result(node.outputs[i]);
    std::memcpy(result.data.data(), &after[static_cast<size_t>(layout.outputs[i])], result.data.size());
    results.push_back(std::move(result));
  }
  return results;
}

std::string compare_bits(const HostTensor& found, const HostTensor& expected, Bits bits) {
  if (found.type != expected.type) return found.type.text() + " is not " + expected.type.text();
  if (found == expected) return "";
  const bool floats = is_floating(found.type.dtype);
  int64_t different = 0;
  std::string first;
  for (int64_t i = 0; i < found.elements(); ++i) {
    const uint64_t a = bits_of(found, i), b = bits_of(expected, i);
    if (a == b) continue;
    const double x = found.get(i), y = expected.get(i);
    if (bits == Bits::kAnyNan && floats && x != x && y != y) continue;
    if (different++ > 0) continue;
    char text[160];
    std::snprintf(text, sizeof(text), "element %lld is %.9g (%llx), not %.9g (%llx)", static_cast<long long>(i), x,
                  static_cast<unsigned long long>(a), y, static_cast<unsigned long long>(b));
    first = text;
  }
  if (different == 0) return "";
  return std::to_string(different) + " of " + std::to_string(found.elements()) + " elements differ: " + first;
}

CardRun expect_card_equals_host(const NodeSignature& node, const std::vector<HostTensor>& inputs,
                                const CardChoices& choices) {
  program::KernelChoice choice;
  try {
    hopper_backend().choose(node, kThreads);
  } catch (const Error&) {
    EXPECT_THROW(cuda_backend().choose(node, kThreads), Error) << node.text() << ": only the card takes it";
    return {};
  }
  try {
    choice = cuda_backend().choose(node, kThreads);
    const CardRun run{choice.name, !choice.name.starts_with("host:")};
    if (choices.must_be_on_card) {
      std::string why;
      for (const std::string& skipped : choice.skipped) why += "; " + skipped;
      EXPECT_TRUE(run.on_card) << node.text() << " is not computed on the card" << why;
    }
    const std::vector<HostTensor> expected = interpret_node(node, hopper_backend(), inputs, kThreads);
    for (const bool aliases : {false, true}) {
      if (aliases && !(choices.aliases && has_aliases(node, choice))) continue;
      const std::vector<HostTensor> found = run_on_card(node, inputs, aliases);
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(compare_bits(found[i], expected[i], choices.bits), "")
            << node.text() << " by " << choice.name << (aliases ? " with shared memory" : "") << ", output " << i;
    }
    return run;
  } catch (const std::exception& error) {
    ADD_FAILURE() << node.text() << " by " << choice.name << ": " << error.what();
    return {choice.name, false};
  }
}

HostTensor random_bits(DType dtype, Shape shape, uint64_t which) {
  HostTensor tensor(TensorType{dtype, std::move(shape)});
  const RandomStream stream(which, RandomPurpose::kTest, 0, 11);
  for (size_t i = 0; i < tensor.data.size(); ++i)
    tensor.data[i] = static_cast<std::byte>(static_cast<int>(stream.uniform(i) * 256));
  return tensor;
}

}  // namespace ramet::tests
