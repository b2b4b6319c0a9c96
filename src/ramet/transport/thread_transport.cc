#include "ramet/transport/thread_transport.h"

#include <fmt/format.h>

#include "ramet/base/error.h"
#include "ramet/transport/transport_shared.h"

namespace ramet::transport {

Transports make_thread_transports(int devices, const TransportOptions& options) {
  if (devices < 1 || devices > 1024)
    throw Error({.what = "wrong number of devices",
                 .where = "threads transport",
                 .found = std::to_string(devices),
                 .expected = "1 to 1024"});
  WorldMembers members;
  members.hosts.assign(static_cast<size_t>(devices), 0);
  members.processes.assign(static_cast<size_t>(devices), 0);
  members.name = "threads";
  members.options = options;
  const auto world = std::make_shared<SharedWorld>(std::move(members));
  Transports endpoints;
  for (int device = 0; device < devices; ++device) endpoints.push_back(std::make_unique<SharedEndpoint>(world, device));
  return endpoints;
}

}  // namespace ramet::transport
