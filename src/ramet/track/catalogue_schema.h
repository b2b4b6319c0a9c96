#pragma once

#include "ramet/track/sqlite.h"

namespace ramet::track {

/// Of the catalogue's tables. A catalogue of another version is made again from the folders of the runs.
inline constexpr int64_t kCatalogueSchema = 1;

/// The version of the tables in a database; 0: it has none.
int64_t schema_of(Database& database);
/// Takes away whatever the database holds and makes empty tables. Inside a transaction of the caller's.
void make_schema(Database& database);

}  // namespace ramet::track
