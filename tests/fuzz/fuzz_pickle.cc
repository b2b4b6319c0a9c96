#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/weights/pickle.h"

using namespace ramet::tests;
using namespace std::string_literals;

namespace {

std::string str(const std::string& value) {
  return "X"s + static_cast<char>(value.size()) + "\0\0\0"s + value;
}

/// {'w': a tensor of 2 x 3 of storage '0'}
const std::string kTable = "\x80\x02}q\x00("s + str("w") + "ctorch._utils\n_rebuild_tensor_v2\nq\x01(("s + str("storage") +
                           "ctorch\nFloatStorage\n"s + str("0") + str("cpu") +
                           "K\x06tQK\x00K\x02K\x03\x86K\x03K\x01\x86\x89"
                           "ccollections\nOrderedDict\n)RtRu."s;

}  // namespace

RAMET_FUZZ_TARGET(pickle, std::string_view input) {
  for (const PickledTensor& tensor : read_torch_pickle(input, "x.bin")) {
    // What is accepted lies in its storage, whatever its strides.
    int64_t last = tensor.offset;
    for (int i = 0; i < tensor.shape.rank(); ++i) {
      if (tensor.shape[i] == 0) return;
      last += (tensor.shape[i] - 1) * tensor.strides[static_cast<size_t>(i)];
    }
    if (tensor.offset < 0 || last >= tensor.storage_elements || tensor.shape.elements() > tensor.storage_elements ||
        torch_dtype_size(tensor.dtype) == 0 || tensor.storage.find('/') != std::string::npos)
      internal_error("pickle", "a tensor that was accepted does not lie in its storage");
  }
}

RAMET_FUZZ_SEEDS(pickle) {
  return {.inputs = {kTable, "\x80\x02}."s, "\x80\x04\x95\0\0\0\0\0\0\0\0}\x94\x8c\x01"s + "aNs."},
          .words = {"q\x00"s, "h\x00"s, "K\x02", "\x85", "\x86", "\x87", "(", "t", "u", "R", "Q", "b", ".", "]", "}", ")",
                    "2", "0", "\x94", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", "J\xff\xff\xff\x7f", "M\xff\xff",
                    "ctorch\nHalfStorage\n", "ctorch._utils\n_rebuild_parameter\n", "cos\nsystem\n",
                    str("state_dict"), str("w")}};
}
