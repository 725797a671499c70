#include "serve/generation/generate.h"

#include <fmt/format.h>

#include <utility>

#include "base/json_message.h"
#include "base/request_error.h"
#include "serve/model/words_codec.h"

namespace sullae::serve {
namespace {

using nlohmann::json;

constexpr const char* kParameters = "max_tokens, temperature, top_k, top_p and seed";

void read_parameter(const std::string& name, const json& value, train::GenerationOptions& options) {
  const auto number = [&](auto& into) {
    using Number = std::decay_t<decltype(into)>;
    const bool good = std::is_floating_point_v<Number> ? value.is_number()
                      : std::is_unsigned_v<Number>     ? value.is_number_unsigned()
                                                       : value.is_number_integer();
    if (!good) {
      refuse(fmt::format("\"{}\": expected a {}, got {}", name,
                         std::is_floating_point_v<Number> ? "number" : "whole number",
                         value.dump(-1, ' ', false, json::error_handler_t::replace)));
    }
    into = value.get<Number>();
  };
  if (name == "max_tokens") return number(options.max_tokens);
  if (name == "temperature") return number(options.temperature);
  if (name == "top_k") return number(options.top_k);
  if (name == "top_p") return number(options.top_p);
  if (name == "seed") return number(options.seed);
  refuse(fmt::format("there is no parameter \"{}\"; there are {}", name, kParameters));
}

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(std::shared_ptr<Version> version, const GenerateRequest& request,
             std::function<void(const Generated&)> done)
      : version_(std::move(version)),
        text_(*version_->model().language(), request.prompt, request.options),
        done_(std::move(done)) {}

  void step() {
    version_->submit(
        rows_of_words({text_.window()}),
        [self = shared_from_this()](const Batcher::Outcome& outcome) { self->take(outcome); });
  }

 private:
  void take(const Batcher::Outcome& outcome) {
    try {
      if (outcome.error) std::rethrow_exception(outcome.error);
      text_.take(outcome.outputs.at(0)[0]);
      if (!text_.ended()) return step();
    } catch (const std::exception&) {
      return end({.error = std::current_exception()});
    }
    end({.text = text_.text(),
         .finish_reason = text_.finish_reason(),
         .pieces = text_.count(),
         .error = {}});
  }

  void end(const Generated& generated) {
    version_->count_request(Clock::now() - start_, !generated.error);
    done_(generated);
  }

  std::shared_ptr<Version> version_;
  train::Continuation text_;
  std::function<void(const Generated&)> done_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

GenerateRequest parse_generate_request(const json& body) {
  if (!body.is_object()) refuse("expected an object with \"text_input\"");
  GenerateRequest request;
  for (const auto& [key, value] : body.items()) {
    if (key == "text_input" || key == "id") {
      if (!value.is_string()) refuse(fmt::format("\"{}\": expected a text", key));
      (key == "id" ? request.id : request.prompt) = value.get<std::string>();
    } else if (key == "parameters") {
      if (!value.is_object()) refuse("\"parameters\": expected an object");
      for (const auto& [name, of] : value.items()) read_parameter(name, of, request.options);
    } else {
      read_parameter(key, value, request.options);
    }
  }
  if (!body.contains("text_input")) refuse("\"text_input\" is missing");
  if (request.prompt.size() > kMostTextBytes)
    refuse(fmt::format("\"text_input\": has {} bytes, expected at most {}", request.prompt.size(),
                       kMostTextBytes));
  try {
    train::check_generation(request.options,
                            [](const char* name) { return fmt::format("\"{}\":", name); });
  } catch (const InputError& error) {
    refuse(error.what());
  }
  return request;
}

void generate(const std::shared_ptr<Version>& version, const GenerateRequest& request,
              std::function<void(const Generated&)> done) {
  if (!version->model().language())
    refuse("this model writes nothing: expected a language model, of `sullae train gpt`");
  std::make_shared<Generation>(version, request, std::move(done))->step();
}

}  // namespace sullae::serve
