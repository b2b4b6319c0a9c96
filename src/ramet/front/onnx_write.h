#pragma once

#include "ramet/base/house.h"

#include <string>

#include "ramet/base/host_tensor.h"
#include "ramet/base/proto.h"
#include "ramet/front/onnx_program.h"

namespace ramet::front {

/// A tensor as a TensorProto.
ProtoMessage onnx_tensor_message(const HostTensor& tensor, const std::string& name);
/// A value as a file of a data set: a TensorProto, a SequenceProto, or an OptionalProto where `like` is one.
std::string onnx_feed_bytes(const OnnxFeed& feed, const OnnxValueInfo& like);

}  // namespace ramet::front
