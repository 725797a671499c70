// The table, in parts: a file each.
#pragma once

#include <vector>

#include "serve/generation/generate.h"
#include "serve/repository/repository.h"
#include "serve/rest/route.h"
#include "serve/rest/workers.h"
#include "serve/samples/examples_api.h"
#include "serve/samples/online_api.h"

namespace sullae::serve {

// What is given must outlive the routes.

/// The page, metrics, and what is said of the server.
std::vector<Route> server_routes(Repository& repository, OnlineApi& online, Workers& workers);
/// What is said of models.
std::vector<Route> model_routes(Repository& repository, Workers& workers);
/// What models are for.
std::vector<Route> inference_routes(Repository& repository, Workers& workers);
/// What language models are for, too.
std::vector<Route> generation_routes(Repository& repository, Generations& generations,
                                     Workers& workers);
/// What changes which versions answer.
std::vector<Route> operator_routes(Repository& repository, Workers& workers);
/// Samples, and learning from them.
std::vector<Route> sample_routes(Repository& repository, ExamplesApi& examples, OnlineApi& online,
                                 Workers& workers);

}  // namespace sullae::serve
