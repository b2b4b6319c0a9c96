#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ramet/track/catalogue.h"
#include "ramet/track/event_file.h"
#include "ramet/track/http.h"
#include "ramet/track/run_record.h"

namespace ramet::track {

/// What a run was exported to.
struct ExportReport {
  std::filesystem::path path;  ///< a file, or a folder with more than one
  int64_t points = 0, media = 0;
  std::vector<std::string> remarks;  ///< one line each: what the format has no room for
};

/// The configuration of a run: the keys of its recipe, then those of its "config" events; values as JSON text. A key
/// that stands twice has its last value.
std::vector<ConfigValue> config_of(const RunRecord& run);
/// What the run logged besides numbers: its "logged" events.
std::vector<MediaRow> media_of(const RunRecord& run);
/// The bytes of an artifact; "" where it is not there. `hash`: as in the event; anything but 32 hexadecimal digits is
/// not there.
std::string read_artifact(const std::filesystem::path& run, const std::string& hash);
/// The run's system metrics: each log in system/ with its name.
std::vector<std::pair<std::string, RunLog>> system_logs(const std::filesystem::path& run);
/// When a run began: by its run.json, or by its log; 0 where neither says it.
double start_of(const RunRecord& run);
/// The time of the last metrics; 0 where there are none.
double end_of(const RunRecord& run);

/// Writes FOLDER/ID/events.out.tfevents.*: what `tensorboard --logdir FOLDER` shows. Scalars, configuration (HPARAMS),
/// texts, images and histograms. The same run gives the same file, which takes the place of an earlier one.
ExportReport export_tensorboard(const RunRecord& run, const std::filesystem::path& folder);

/// Writes FOLDER/offline-run-TIME-ID/run-ID.wandb and the files beside it, as W&B does without a network: for
/// `wandb sync`. `project`: the one that a server shall put the run into.
ExportReport export_wandb(const RunRecord& run, const std::filesystem::path& folder, const std::string& project);

/// Where and how runs are pushed to MLflow.
struct MlflowServer {
  std::string url;                                            ///< "http://localhost:5000"
  std::string experiment = "ramet";                           ///< made where it is not there
  HttpSend send;                                              ///< track/http.h
  std::function<void(double)> sleep;                          ///< waits so many seconds before it tries again
  std::function<void(int64_t done, int64_t total)> progress;  ///< of points
};
struct PushReport {
  std::string run_id, url;  ///< of MLflow, and where its page shows the run
  bool created = false;     ///< else the run was there already, by its tag `ramet.run`, and was brought up to date
  int64_t points = 0, params = 0, artifacts = 0;
  std::vector<std::string> remarks;
};
/// Sends a run to MLflow's server by its REST API: metrics with their times and steps, the configuration as parameters,
/// status, tags, note, and the run's recipe, plan and artifacts. A run that is pushed again is brought up to date:
/// MLflow keeps one copy of equal points. Requests have at most 1000 metrics and less than 1 MB; one that fails for the
/// network's or the server's sake is sent again, with longer and longer pauses. Throws Error when the server refuses.
PushReport push_to_mlflow(const RunRecord& run, const MlflowServer& server);

/// How MLFLOW_TRACKING_USERNAME, _PASSWORD, _TOKEN, _INSECURE_TLS and _SERVER_CERT_PATH say to speak to a server.
HttpAccess mlflow_access();

/// What a server of Prometheus is told of a run.
struct RunGauges {
  std::string id, name, status;
  int64_t steps = 0;
  double started = 0, updated = 0;  ///< seconds since 1970; 0: not known
  std::vector<LoggedNumber> last;   ///< last values by metric
};
RunGauges gauges_of(const RunRecord& run);
/// The runs as Prometheus' text format (version 0.0.4).
std::string prometheus_text(const std::vector<RunGauges>& runs);

}  // namespace ramet::track
