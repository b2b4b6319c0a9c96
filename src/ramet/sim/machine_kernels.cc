#include "ramet/sim/machine_kernels.h"

#include "ramet/kernel/devices.h"
#include "ramet/sim/model_library.h"

namespace ramet::sim {

std::shared_ptr<const KernelLibrary> machine_kernels(const Machine& machine) {
  const Backend& here = find_device().backend();
  if (machine.kernel_class == here.kernel_class()) return {std::shared_ptr<void>(), &here};
  if (machine.device.model == DeviceModel::kTiles) return std::make_shared<TileLibrary>(machine.device.tiles);
  return std::make_shared<CoreLibrary>();
}

}  // namespace ramet::sim
