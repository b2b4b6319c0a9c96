#include "fuzz/fuzz_target.h"
#include "fuzz/graph_parts.h"
#include "ramet/graphs/read.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(events, std::string_view input) { fuzz::check_tables(graphs::parse_events(input, "input")); }

RAMET_FUZZ_SEEDS(events) {
  return {.inputs = {"# SNAP\n1 2 1082040961\n3 4 1082155839\n1 2 1082040961\n",
                     "source,target,time,label,a,b\nu,v,0.5,1,1,2\nv,u,0.25,0,3,4\n",
                     "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n0,0,0.0,0,-0.1,2\n"
                     "1,0,36.0,0,0.5,1e-3\n"},
          .words = {"source", "user_id", "item_id", "timestamp", "label", "time", "comma_separated_list_of_features",
                    ",", "\n", "\r\n", "#", "%", "nan", "1e999", "2147483648", "-1", " "}};
}
