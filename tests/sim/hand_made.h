#pragma once

#include <string>
#include <vector>

#include "ramet/machine/machine.h"
#include "ramet/program/executable.h"

namespace ramet::tests::hand {

/// Programs written by hand for simulations: each segment takes the seconds that its author says, whatever the machine.
class Program {
 public:
  using Kind = ProgramStep::Kind;

  Program(Mesh mesh, int stage) {
    exe.mesh = mesh;
    exe.stage = stage;
  }

  /// A run of a segment that computes for so long, as the layer `name`.
  Program& work(Machine& machine, double seconds, const std::string& name = "layer0/work") {
    begin(PieceKind::kForward);
    add_work(machine, seconds, name);
    return *this;
  }
  /// Starts a run to which add_work and add_reduce bring instructions.
  Program& begin(PieceKind kind, int32_t micro = -1) {
    Segment segment;
    segment.name = "segment " + std::to_string(exe.segments.size());
    segment.kind = kind;
    exe.segments.push_back(segment);
    step(Kind::kRun, static_cast<int32_t>(exe.segments.size()) - 1, micro);
    return *this;
  }
  Program& add_work(Machine& machine, double seconds, const std::string& name = "layer0/work") {
    // A node that nothing else is: its type says which one.
    const TensorType type{DType::kF32, {static_cast<int64_t>(machine.measured_calls.size()) + 1}};
    Call call;
    call.node = {&OpRegistry::instance().get("add"), {type, type}, {type}, {}, name};
    call.kernel = "by hand";
    machine.measured_calls[timing_key(call.node, call.kernel)] = seconds;
    return add(std::move(call), name);
  }
  /// An all-reduce of so many bytes along an axis.
  Program& add_reduce(MeshAxis axis, int64_t parts, int64_t bytes, int64_t stride = 1) {
    const TensorType type{DType::kF32, {bytes / 4}};
    Call call;
    call.node = {&OpRegistry::instance().get("all_reduce"),
                 {type},
                 {type},
                 {{"axis", static_cast<int64_t>(axis)}, {"parts", parts}, {"stride", stride}},
                 "sum"};
    return add(std::move(call), "sum");
  }

  /// Returns the step that started it.
  int32_t send(int peer, int64_t bytes, int32_t tag = 0) { return transfer(Kind::kSend, peer, bytes, tag, "message"); }
  int32_t receive(int peer, int64_t bytes, int32_t tag = 0) {
    return transfer(Kind::kReceive, peer, bytes, tag, "message");
  }
  int32_t load(int64_t bytes) { return transfer(Kind::kLoad, -1, bytes, 0, "state"); }
  int32_t store(int64_t bytes) { return transfer(Kind::kStore, -1, bytes, 0, "state"); }
  Program& wait(int32_t started) {
    step(Kind::kWait, started);
    return *this;
  }

  Executable exe;

 private:
  int32_t step(Kind kind, int32_t subject, int32_t micro = -1) {
    ProgramStep step;
    step.kind = kind;
    step.subject = subject;
    step.micro = micro;
    exe.train().steps.push_back(step);
    return static_cast<int32_t>(exe.train().steps.size()) - 1;
  }
  Program& add(Call call, const std::string& name) {
    Instruction instruction;
    instruction.call = static_cast<int32_t>(exe.calls.size());
    instruction.name = name;
    exe.calls.push_back(std::move(call));
    exe.segments.back().instructions.push_back(std::move(instruction));
    return *this;
  }
  /// One transfer for each way, as programs have them.
  int32_t transfer(Kind kind, int peer, int64_t bytes, int32_t tag, const std::string& name) {
    const TensorType type{DType::kF32, {bytes / 4}};
    for (size_t i = 0; i < exe.transfers.size(); ++i) {
      const Transfer& known = exe.transfers[i];
      if (known.peer == peer && known.tag == tag && known.type == type && peer >= 0)
        return step(kind, static_cast<int32_t>(i));
    }
    Transfer transfer;
    transfer.name = name;
    transfer.type = type;
    transfer.peer = peer;
    transfer.tag = tag;
    exe.transfers.push_back(transfer);
    return step(kind, static_cast<int32_t>(exe.transfers.size()) - 1);
  }
};

/// Devices joined by links of 1 GB/s each way and no latency, with device memory of any size.
inline Machine machine_of(int devices, Topology topology = Topology::kAllToAll, double bandwidth = 1e9) {
  Machine machine;
  machine.name = "by hand";
  machine.devices = devices;
  machine.device.clock = 1e9;
  machine.device.operations_per_cycle = {{"f32", 1000}, {"bf16", 2000}};
  machine.memories = {{.role = MemoryRole::kDevice, .bytes = 1 << 30, .read = 1e12, .write = 1e12, .total = 1e12}};
  if (devices > 1)
    machine.links = {{.name = "links", .topology = topology, .group = devices, .links = 1, .bandwidth = bandwidth}};
  return machine;
}

}  // namespace ramet::tests::hand
