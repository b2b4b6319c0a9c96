#pragma once

#include "ramet/serve/api.h"

namespace ramet::serve {

// The functions of the routes (api_routes.cc), by file. docs/openapi.json says what each takes and gives.

// api_runs.cc
HttpResponse get_version(ApiCall& call);
HttpResponse get_runs(ApiCall& call);
HttpResponse get_run(ApiCall& call);
HttpResponse patch_run(ApiCall& call);
HttpResponse get_metrics(ApiCall& call);
HttpResponse get_events(ApiCall& call);
HttpResponse get_keys(ApiCall& call);
HttpResponse get_compare(ApiCall& call);
HttpResponse get_importance(ApiCall& call);
HttpResponse get_sql(ApiCall& call);

// api_files.cc
HttpResponse get_file(ApiCall& call);
HttpResponse get_numerics(ApiCall& call);
HttpResponse get_trace(ApiCall& call);
HttpResponse get_media(ApiCall& call);
HttpResponse get_artifact(ApiCall& call);
HttpResponse get_csv(ApiCall& call);

// api_documents.cc
HttpResponse list_views(ApiCall& call);
HttpResponse get_view(ApiCall& call);
HttpResponse put_view(ApiCall& call);
HttpResponse delete_view(ApiCall& call);
HttpResponse list_reports(ApiCall& call);
HttpResponse get_report(ApiCall& call);
HttpResponse put_report(ApiCall& call);
HttpResponse delete_report(ApiCall& call);

// api_sweeps.cc
HttpResponse list_sweeps(ApiCall& call);
HttpResponse get_sweep(ApiCall& call);

// export_html.cc
HttpResponse export_html(ApiCall& call);

// api_live.cc
HttpResponse get_stream(ApiCall& call);
HttpResponse post_link(ApiCall& call);
HttpResponse get_prometheus(ApiCall& call);

}  // namespace ramet::serve
