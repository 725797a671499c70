// Texts that go on, whole or piece by piece: the Open Inference Protocol's extension for them, as
// KServe and Triton have it.
#include <memory>
#include <nlohmann/json.hpp>

#include "base/dump_json.h"
#include "http/event_stream.h"
#include "http/responses.h"
#include "serve/generation/generate.h"
#include "serve/protocol/json_tensors.h"
#include "serve/rest/routes.h"

namespace sullae::serve {
namespace {

using nlohmann::json;

// A request, and how its answers begin.
class Asked {
 public:
  Asked(Repository& repository, const Call& call, bool streamed)
      : version_(repository.choose(call.model, call.version)),
        request_(parse_generate_request(parse_json(call.request.body, call.request.memory.get()),
                                        streamed)),
        head_({{"model_name", call.model}, {"model_version", std::to_string(version_->number())}}),
        memory_(call.request.memory) {
    if (!request_.id.empty()) head_["id"] = request_.id;
  }

  void start(Generations& generations, GenerationListener listener) const {
    generations.start(version_, request_, std::move(listener));
  }
  json answer(const std::string& text) const {
    json answer = head_;
    answer["text_output"] = text;
    return answer;
  }
  json answer(const Generated& generated) const {
    json last = answer(generated.text);
    last["finish_reason"] = generated.finish_reason;
    last["tokens"] = generated.pieces;
    return last;
  }

 private:
  std::shared_ptr<Version> version_;
  GenerateRequest request_;
  json head_;
  std::shared_ptr<http::Reservation> memory_;
};

void answer_whole(Generations& generations, Repository& repository, const Call& call,
                  const http::Respond& respond) {
  const auto asked = std::make_shared<Asked>(repository, call, /*streamed=*/false);
  asked->start(generations, {.done = [asked, respond](const Generated& generated) {
                 http::attempt(respond, [&] {
                   if (generated.error) std::rethrow_exception(generated.error);
                   respond(http::json_response(asked->answer(generated)));
                 });
               }});
}

// The status waits for the first piece: until then it may be that of an error.
class StreamedAnswer {
 public:
  StreamedAnswer(std::shared_ptr<Asked> asked, http::Respond respond)
      : asked_(std::move(asked)), respond_(std::move(respond)) {}

  bool wrote(const std::string& text) {
    begin();
    return events_->send(dump_json(asked_->answer(text)));
  }
  void done(const Generated& generated) {
    if (generated.error && !begun_) return respond_(http::failure_response(generated.error));
    begin();
    // What an answer that was not streamed would say.
    events_->send(generated.error ? http::failure_response(generated.error).body
                                  : dump_json(asked_->answer(generated)));
    events_->end();
  }

 private:
  void begin() {
    if (std::exchange(begun_, true)) return;
    respond_(events_->answer());
  }

  std::shared_ptr<Asked> asked_;
  http::Respond respond_;
  std::shared_ptr<http::EventStream> events_ = std::make_shared<http::EventStream>();
  bool begun_ = false;
};

void answer_piece_by_piece(Generations& generations, Repository& repository, const Call& call,
                           const http::Respond& respond) {
  const auto asked = std::make_shared<Asked>(repository, call, /*streamed=*/true);
  const auto answer = std::make_shared<StreamedAnswer>(asked, respond);
  asked->start(generations,
               {.done = [answer](const Generated& generated) { answer->done(generated); },
                .wrote =
                    [answer](const std::string& text) {
                      return answer->wrote(text);
                    }});
}

}  // namespace

std::vector<Route> generation_routes(Repository& repository, Generations& generations,
                                     Workers& workers) {
  const auto whole = computed(
      repository, workers, [&generations](auto&... call) { answer_whole(generations, call...); });
  const auto streamed = computed(repository, workers, [&generations](auto&... call) {
    answer_piece_by_piece(generations, call...);
  });
  return {
      {"POST", "v2/models/{model}/generate", http::Role::infer, whole},
      {"POST", "v2/models/{model}/versions/{version}/generate", http::Role::infer, whole},
      {"POST", "v2/models/{model}/generate_stream", http::Role::infer, streamed},
      {"POST", "v2/models/{model}/versions/{version}/generate_stream", http::Role::infer, streamed},
  };
}

}  // namespace sullae::serve
