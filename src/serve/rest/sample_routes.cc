#include <boost/asio/post.hpp>

#include "serve/rest/routes.h"

namespace sullae::serve {

std::vector<Route> sample_routes(Repository& repository, ExamplesApi& examples, OnlineApi& online,
                                 Workers& workers) {
  return {
      {"POST", "v1/models/{model}/examples", http::Role::operate,
       [&](const CallPointer& call, const http::Respond& respond) {
         const bool images = repository.look_up(call->model, "")->model().codec().decodes_slowly();
         boost::asio::post(images ? workers.images : workers.writers, [&, call, respond] {
           attempt(respond, [&] {
             const auto version = repository.look_up(call->model, "");
             examples.post(call->model, version->model().codec(), call->request, call->author,
                           respond);
           });
         });
       }},
      {"GET", "v1/models/{model}/examples", http::Role::operate,
       in(workers.disk,
          [&](const Call& call) {
            const auto version = repository.look_up(call.model, "");
            return examples.get(call.model, version->model().codec(), call.request.query);
          })},
      {"GET", "v1/models/{model}/online", http::Role::read,
       in(workers.disk,
          [&](const Call& call) { return online.status(call.model, call.request.query); })},
      {"POST", "v1/models/{model}:train", http::Role::operate,
       in(workers.writers,
          [&](const Call& call) {
            expect_no_body(call, "which begins a round with all samples that wait");
            return online.call(call.model, call.author);
          })},
  };
}

}  // namespace sullae::serve
