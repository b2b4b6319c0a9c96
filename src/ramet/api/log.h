#pragma once

#include "ramet/base/house.h"

#include "ramet/log.h"
#include "ramet/track/artifacts.h"
#include "ramet/track/run_directory.h"

namespace ramet::v0 {

/// What a Run is to the engine.
struct Run::State {
  std::string path;
  std::optional<track::RunDirectory> directory;  ///< absent: it joined a run that is another's
  std::shared_ptr<track::RunLogWriter> log;
  std::unique_ptr<track::ArtifactWriter> artifacts;  ///< writes to `log`
  bool over = false;

  void event(const std::string& json);
};

}  // namespace ramet::v0
