#include "ramet/layout/halo_plan.h"

#include <algorithm>

#include "ramet/base/error.h"

namespace ramet::layout {
namespace {

const int32_t* numbers(const HostTensor& tensor) { return reinterpret_cast<const int32_t*>(tensor.data.data()); }
int32_t* numbers(HostTensor& tensor) { return reinterpret_cast<int32_t*>(tensor.data.data()); }

HostTensor table(Shape shape, int32_t value) {
  HostTensor tensor(TensorType{DType::kI32, std::move(shape)});
  std::fill_n(numbers(tensor), tensor.elements(), value);
  return tensor;
}

/// Where each cluster is: its place in the order of the devices.
std::vector<int64_t> places_of(const std::vector<int64_t>& deal) {
  std::vector<int64_t> places(deal.size());
  for (size_t i = 0; i < deal.size(); ++i) places[static_cast<size_t>(deal[i])] = static_cast<int64_t>(i);
  return places;
}

}  // namespace

HaloPlan plan_halo(const HostTensor& rows, int64_t own, const std::vector<int64_t>& deal, int64_t devices) {
  const int64_t clusters = rows.type.shape[0], width = rows.type.shape[1], each = clusters / devices;
  const std::vector<int64_t> place = places_of(deal);
  // Rows that a device sends to another, ascending, as they lie on the sender.
  std::vector<std::vector<int32_t>> messages(static_cast<size_t>(devices * devices));
  const auto message = [&](int64_t from, int64_t to) -> std::vector<int32_t>& {
    return messages[static_cast<size_t>(from * devices + to)];
  };
  const auto at_owner = [&](int32_t row) {
    const int64_t cluster = place[static_cast<size_t>(row / own)];
    return std::pair(cluster / each, static_cast<int32_t>(cluster % each * own + row % own));
  };
  for (int64_t k = 0; k < clusters; ++k)
    for (int64_t i = 0; i < width; ++i)
      if (const int32_t row = numbers(rows)[k * width + i]; row >= 0) {
        const auto [from, local] = at_owner(row);
        if (const int64_t to = place[static_cast<size_t>(k)] / each; to != from) message(from, to).push_back(local);
      }
  int64_t most = 1;
  for (auto& each_message : messages) {
    std::sort(each_message.begin(), each_message.end());
    each_message.erase(std::unique(each_message.begin(), each_message.end()), each_message.end());
    most = std::max(most, std::ssize(each_message));
  }
  HaloPlan plan{table({devices, devices, most}, -1), table({devices, each, width}, 0)};
  for (size_t i = 0; i < messages.size(); ++i)
    std::copy(messages[i].begin(), messages[i].end(), numbers(plan.send) + static_cast<int64_t>(i) * most);
  for (int64_t k = 0; k < clusters; ++k) {
    const int64_t to = place[static_cast<size_t>(k)] / each;
    int32_t* const out = numbers(plan.place) + place[static_cast<size_t>(k)] * width;
    for (int64_t i = 0; i < width; ++i) {
      const int32_t row = numbers(rows)[k * width + i];
      if (row < 0) continue;
      const auto [from, local] = at_owner(row);
      const std::vector<int32_t>& sent = message(from, to);
      out[i] = from == to ? -(local + 1)
                          : static_cast<int32_t>(
                                from * most + (std::lower_bound(sent.begin(), sent.end(), local) - sent.begin()) + 1);
    }
  }
  return plan;
}

void verify_halos(const Graph& graph, const std::string& after) {
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    if (!node.attributes.has("place") || !node.attributes.has("rows") || node.inputs.size() != 2) continue;
    const auto fail = [&](const std::string& what, const std::string& found) {
      throw Error({.what = "an exchange of rows is not valid after " + after + ": " + what,
                   .where = graph.signature(id).text(),
                   .found = found},
                  ErrorKind::kFailure);
    };
    const NodeId exchange = graph.value(node.inputs[1]).producer;
    const NodeId pack = exchange == kNoNode ? kNoNode : graph.value(graph.node(exchange).inputs[0]).producer;
    if (pack == kNoNode || !graph.node(pack).attributes.has("send") ||
        graph.node(exchange).op->exchange != Exchange::kAllToAll || graph.node(pack).inputs[0] != node.inputs[0])
      fail("what came was not sent by the same list", "");
    const HostTensor& send = graph.node(pack).attributes.get_tensor("send").tensor();
    const HostTensor& place = node.attributes.get_tensor("place").tensor();
    const HostTensor& rows = node.attributes.get_tensor("rows").tensor();
    const std::vector<int64_t>& deal = node.attributes.get_ints("deal");
    const int64_t devices = send.type.shape[0], most = send.type.shape[2], each = place.type.shape[1],
                  width = place.type.shape[2], own = graph.type(node.inputs[0]).shape[1];
    if (rows.type.shape != Shape{std::ssize(deal), width} || each * devices != std::ssize(deal))
      fail("the tables are of other sizes", rows.type.text());
    for (int64_t at = 0; at < std::ssize(deal); ++at)
      for (int64_t i = 0; i < width; ++i) {
        const int64_t device = at / each, entry = numbers(place)[at * width + i];
        constexpr int64_t kNothing = -1, kNotSent = -2;
        int64_t found = kNothing;  // the row of the whole graph that the place gets
        if (entry != 0) {
          const int64_t from = entry < 0 ? device : (entry - 1) / most;
          const int64_t local =
              entry < 0 ? -entry - 1 : numbers(send)[(from * devices + device) * most + (entry - 1) % most];
          found = local < 0 ? kNotSent : deal[static_cast<size_t>(from * each + local / own)] * own + local % own;
        }
        const int64_t wanted = numbers(rows)[deal[static_cast<size_t>(at)] * width + i];
        if (found != wanted)
          fail("device " + std::to_string(device) + ", cluster " + std::to_string(deal[static_cast<size_t>(at)]) +
                   ", place " + std::to_string(i) + " should get row " + std::to_string(wanted),
               found == kNotSent ? "a row that no device sends" : "row " + std::to_string(found));
      }
  }
}

}  // namespace ramet::layout
