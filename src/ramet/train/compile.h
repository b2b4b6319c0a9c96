#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/layout/layout.h"
#include "ramet/model/model.h"
#include "ramet/program/compile.h"
#include "ramet/train/train_options.h"

namespace ramet::machine {
struct Machine;
}  // namespace ramet::machine

namespace ramet::transport {
class MpiSession;
}  // namespace ramet::transport

namespace ramet::train {

/// How and where to run: nothing here changes a bit of any weight.
struct Where {
  int threads = 0;  ///< of this process, shared evenly by its devices; 0: the layout's, or all available processors
  int64_t device_memory = 0;  ///< bytes that a device's program may take; 0: the layout's
  /// Where nothing says how many bytes: this share of those without a limit, or as few as it can. 0: no limit.
  double device_memory_share = 0;
  /// Kind of the devices (kernel/devices.h): "cpu", "loopback"; "": the default.
  std::string device{};
  bool profile = false;
  MpiSession* mpi = nullptr;                ///< the job that this process is a rank of
  std::chrono::milliseconds time_limit{0};  ///< longest wait of a device for another; 0: `waiting_limit`
  /// Gets the progress of work before the first step, which may take minutes: "drawing weights", bytes.
  std::function<void(std::string_view what, int64_t done, int64_t total)> progress{};
  std::string layout_source = "layout";  ///< where the layout was written, for errors
};

/// A training step as programs: one for each stage of its layout.
struct CompiledWorkload {
  std::vector<Executable> stages;
  /// The states of a checkpoint: weights in canonical order, then the optimizer's states.
  std::vector<StateTensor> states;
  double seconds = 0;         ///< that compiling took
  int64_t micro_batches = 1;  ///< of a replica, in one step
  double step_flops = 0;      ///< of all devices, in one step
  int64_t step_stream = 0;    ///< bytes that go to and from streaming memory, of the device with the most
};
/// `layout` fits the model (train/facts.h).
CompiledWorkload compile_workload(const Model& model, const TrainOptions& options, const Layout& layout,
                                  const Where& where);
/// The same for any machine: with its kernel library (sim/machine_kernels.h), and with the memory of its devices unless
/// options or layout ask for less. The machine must have enough devices (check_devices).
CompiledWorkload compile_workload(const Model& model, const TrainOptions& options, const Layout& layout,
                                  const Machine& machine, const Where& where);

/// Only the programs of a step, one for each stage, for this machine.
std::vector<Executable> compile_step(StepGraph step, const TrainOptions& options, const Layout& layout,
                                     const Where& where);

/// The compile options that options, a layout and a command line mean together: the command line overrules the layout,
/// the layout the options. Of one device, of the `local` ones that a process has.
CompileOptions compile_options(const TrainOptions& options, const Layout& layout, const Where& where, int local = 1);

/// A minute, plus the time of a slow machine for one micro-batch on all devices and for the traffic of streaming
/// memory. A healthy device never takes this long.
std::chrono::milliseconds waiting_limit(const CompiledWorkload& compiled);
/// The same for the programs of a prediction, of each of them once.
std::chrono::milliseconds waiting_limit(const std::vector<Executable>& stages);

}  // namespace ramet::train
