#include "ramet/front/onnx_write.h"

#include "ramet/front/onnx_tensor.h"

namespace ramet::front {

ProtoMessage onnx_tensor_message(const HostTensor& tensor, const std::string& name) {
  ProtoMessage made;
  for (const int64_t extent : tensor.type.shape.dims()) made.number(1, static_cast<uint64_t>(extent));
  made.number(2, static_cast<uint64_t>(onnx_type_of(tensor.type.dtype)));
  if (!name.empty()) made.bytes(8, name);
  made.bytes(9, {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()});
  return made;
}

std::string onnx_feed_bytes(const OnnxFeed& feed, const OnnxValueInfo& like) {
  const auto sequence = [&] {
    ProtoMessage made;
    made.bytes(1, like.name).number(2, 1);
    for (const HostTensor& tensor : feed.tensors) made.message(3, onnx_tensor_message(tensor, ""));
    return made;
  };
  if (const OnnxSmallType* small = onnx_small_type(like.type); small && feed.kind == OnnxFeed::Kind::kTensor) {
    ProtoMessage made;
    for (const int64_t extent : feed.tensors.at(0).type.shape.dims()) made.number(1, static_cast<uint64_t>(extent));
    return made.number(2, static_cast<uint64_t>(like.type))
        .bytes(8, like.name)
        .bytes(9, pack_onnx(feed.tensors[0], *small))
        .data();
  }
  const bool optional = like.kind == OnnxValueInfo::Kind::kOptional;
  if (!optional)
    return feed.kind == OnnxFeed::Kind::kSequence ? sequence().data()
                                                  : onnx_tensor_message(feed.tensors.at(0), like.name).data();
  ProtoMessage made;
  made.bytes(1, like.name);
  if (feed.kind == OnnxFeed::Kind::kSequence) made.number(2, 3).message(5, sequence());
  if (feed.kind == OnnxFeed::Kind::kTensor) made.number(2, 1).message(3, onnx_tensor_message(feed.tensors.at(0), ""));
  return made.data();
}

}  // namespace ramet::front
