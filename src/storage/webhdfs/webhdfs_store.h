// HDFS by its REST API
// (hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/WebHDFS.html), of name nodes and
// HttpFS.
#pragma once

#include <memory>

#include "storage/store.h"

namespace sullae::storage {

/// Of the name node that `location` names: "webhdfs" by HTTP, "swebhdfs" by HTTPS. Asks as
/// HADOOP_USER_NAME, else USER.
std::unique_ptr<Store> make_webhdfs_store(const Location& location);

}  // namespace sullae::storage
