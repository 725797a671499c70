#include "serve/generation/generate.h"

#include <fmt/format.h>

#include <optional>
#include <random>
#include <type_traits>
#include <utility>

#include "base/dump_json.h"
#include "base/request_error.h"
#include "serve/model/words_codec.h"
#include "serve/protocol/json_tensors.h"

namespace sullae::serve {
namespace {

using nlohmann::json;

constexpr const char* kParameters = "max_tokens, temperature, top_k, top_p and seed";

// Whole numbers of JSON are unsigned where they come from a text, and may be signed where they come
// from a tensor.
template <class Number>
bool is_in_range(const json& value) {
  if constexpr (std::is_floating_point_v<Number>) {
    return value.is_number();
  } else if (value.is_number_unsigned()) {
    return std::in_range<Number>(value.get<std::uint64_t>());
  } else {
    return value.is_number_integer() && std::in_range<Number>(value.get<std::int64_t>());
  }
}

template <class Number>
void read_number(const std::string& name, const json& value, Number& into) {
  constexpr bool kReal = std::is_floating_point_v<Number>;
  if (!is_in_range<Number>(value))
    refuse(fmt::format("\"{}\": expected a {}, got {}", name, kReal ? "number" : "whole number",
                       shorten(dump_json(value))));
  into = value.get<Number>();
}

void read_parameter(const std::string& name, const json& value, bool streamed,
                    train::GenerationOptions& options) {
  if (name == "max_tokens") return read_number(name, value, options.max_tokens);
  if (name == "temperature") return read_number(name, value, options.temperature);
  if (name == "top_k") return read_number(name, value, options.top_k);
  if (name == "top_p") return read_number(name, value, options.top_p);
  if (name == "seed") return read_number(name, value, options.seed);
  if (name == "stream") {
    if (value == streamed) return;
    refuse(
        fmt::format("\"stream\": expected {}: texts come whole from …/generate, and piece by "
                    "piece from …/generate_stream",
                    streamed));
  }
  refuse(fmt::format("there is no parameter \"{}\"; there are {}", shorten(name), kParameters));
}

}  // namespace

GenerateRequest parse_generate_request(const json& body, bool streamed) {
  if (!body.is_object()) refuse("expected an object with \"text_input\"");
  if (!body.contains("text_input")) refuse("\"text_input\" is missing");
  GenerateRequest request;
  request.options.seed = std::random_device()();
  const json* inner = nullptr;
  for (const auto& [key, value] : body.items()) {
    if (key == "text_input" || key == "id") {
      if (!value.is_string()) refuse(fmt::format("\"{}\": expected a text", key));
      (key == "id" ? request.id : request.prompt) = value.get<std::string>();
    } else if (key == "parameters") {
      if (!value.is_object()) refuse("\"parameters\": expected an object");
      inner = &value;
      for (const auto& [name, of] : value.items())
        read_parameter(name, of, streamed, request.options);
    }
  }
  for (const auto& [key, value] : body.items()) {
    if (key == "text_input" || key == "id" || key == "parameters") continue;
    if (inner != nullptr && inner->contains(key))
      refuse(fmt::format("\"{}\" is there twice: in \"parameters\" and beside it", shorten(key)));
    read_parameter(key, value, streamed, request.options);
  }
  if (request.prompt.size() > train::kMostTextBytes)
    refuse(fmt::format("\"text_input\": has {} bytes, expected at most {}", request.prompt.size(),
                       train::kMostTextBytes));
  try {
    train::check_generation(request.options,
                            [](const char* name) { return fmt::format("\"{}\":", name); });
  } catch (const InputError& error) {
    refuse(error.what());
  }
  return request;
}

// Keeps itself while it waits for a piece.
class Generations::One : public std::enable_shared_from_this<One> {
 public:
  One(Generations& all, std::shared_ptr<Version> version, const GenerateRequest& request,
      GenerationListener listener)
      : all_(all),
        version_(std::move(version)),
        admission_(version_->admit()),
        text_(*version_->model().language(), request.prompt, request.options),
        listener_(std::move(listener)) {
    const std::lock_guard lock(all_.mutex_);
    ++all_.count_;
  }
  ~One() {
    // What it holds goes before the server's parts do.
    listener_ = {};
    admission_.reset();
    cache_memory_.reset();
    version_.reset();
    const std::lock_guard lock(all_.mutex_);
    --all_.count_;
    all_.fewer_.notify_all();
  }
  One(const One&) = delete;
  One& operator=(const One&) = delete;

  void step() {
    version_->submit(
        row_of_growing(text_.unseen()),
        [self = shared_from_this()](const Batcher::Outcome& outcome) { self->take(outcome); });
  }

 private:
  void take(const Batcher::Outcome& outcome) {
    Generated generated;
    try {
      if (outcome.error) std::rethrow_exception(outcome.error);
      text_.take(outcome.outputs.at(0)[0]);
      if (!text_.ended()) {
        keep_cache();
        if (all_.ending_) throw RequestError(Refusal::unavailable, "the server ends");
        if (is_heard()) return step();
        return version_->count_request(Clock::now() - start_, false);
      }
      generated = {.text = text_.text().substr(heard_),
                   .finish_reason = text_.finish_reason(),
                   .pieces = text_.count(),
                   .error = {}};
    } catch (const std::exception&) {
      generated.error = std::current_exception();
    }
    version_->count_request(Clock::now() - start_, !generated.error);
    // Who has the answer may send the next.
    admission_.reset();
    listener_.done(generated);
  }

  bool is_heard() {
    if (!listener_.wrote) return true;
    const std::string text = text_.text();
    if (text.size() == heard_) return true;
    return listener_.wrote(text.substr(std::exchange(heard_, text.size())));
  }

  // Without room the text is seen from its beginning again for each piece.
  void keep_cache() {
    if (!cache_memory_) cache_memory_.emplace(version_->cache_memory());
    if (cache_memory_->grow_to(text_.cache().bytes())) return;
    text_.cache().clear();
    cache_memory_.reset();
  }

  Generations& all_;
  std::shared_ptr<Version> version_;
  std::shared_ptr<void> admission_;
  train::Continuation text_;
  std::optional<http::Reservation> cache_memory_;
  GenerationListener listener_;
  std::size_t heard_ = 0;  // bytes of the text
  Clock::time_point start_ = Clock::now();
};

Generations::~Generations() {
  end();
  std::unique_lock lock(mutex_);
  fewer_.wait(lock, [this] { return count_ == 0; });
}

void Generations::start(const std::shared_ptr<Version>& version, const GenerateRequest& request,
                        GenerationListener listener) {
  if (!version->model().language())
    refuse("this model writes nothing: expected a language model, of `sullae train gpt`");
  std::make_shared<One>(*this, version, request, std::move(listener))->step();
}

}  // namespace sullae::serve
