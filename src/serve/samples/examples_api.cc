#include "serve/samples/examples_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/request_error.h"
#include "http/query.h"
#include "http/responses.h"
#include "serve/protocol/base64.h"
#include "serve/protocol/json_tensors.h"

namespace sullae::serve {
namespace {

using nlohmann::json;

constexpr const char* kText = "text";
constexpr const char* kImage = "image";
constexpr std::int64_t kMostAtOnce = 10000;
constexpr std::int64_t kUsualLimit = 1000;
constexpr std::size_t kMostKeyBytes = 1024;
// Of the images of an upload, which are decoded to see that they can be.
constexpr std::chrono::seconds kDecodingLimit{10};
// Of samples in an answer, beyond the first: who asks goes on with the last revision.
constexpr std::size_t kMostAnswerBytes = std::size_t{16} << 20;

std::string member(const json& example, const char* name, std::size_t index) {
  const auto found = example.find(name);
  if (found == example.end() || !found->is_string() || found->get_ref<const std::string&>().empty())
    refuse(fmt::format("example {}: \"{}\": expected a text", index, name));
  return found->get<std::string>();
}

// A JPEG file that the model can be asked about.
std::string image(const json& example, std::size_t index, const Codec& codec,
                  std::chrono::steady_clock::time_point until) {
  InferRequest request{.inputs = {{.name = kImage, .datatype = Datatype::bytes, .shape = {1}}}};
  InferTensor& tensor = request.inputs[0];
  try {
    const auto found = example.find(kImage);
    if (found == example.end() || !found->is_object())
      refuse(fmt::format("\"{}\": expected {{\"b64\": …}}, a JPEG file", kImage));
    append_elements(*found, tensor);
    codec.decode(request, until);
  } catch (const RequestError& error) {
    throw RequestError(error.refusal(), fmt::format("example {}: {}", index, error.what()));
  }
  return std::move(tensor.strings[0]);
}

std::string label_of(const json& example, std::size_t index, const Codec& codec,
                     const std::vector<std::string>& labels) {
  if (codec.learns_to_write()) {
    // As answers have it.
    if (example.value("label", json(online::kNoLabel)) != online::kNoLabel)
      refuse(
          fmt::format("example {}: \"label\": the model learns from texts without labels: expected "
                      "none, or null, which takes the text back",
                      index));
    return online::kNoLabel;
  }
  auto label = member(example, "label", index);
  if (std::ranges::find(labels, label) == labels.end())
    refuse(fmt::format("example {}: the model has no label '{}'", index, label));
  return label;
}

online::Example parse_example(const json& example, std::size_t index, const std::string& input,
                              const Codec& codec, const std::vector<std::string>& labels,
                              std::chrono::steady_clock::time_point until) {
  if (!example.is_object()) refuse(fmt::format("example {}: expected an object", index));
  for (const auto& item : example.items()) {
    if (item.key() != input && item.key() != "label" && item.key() != "key")
      refuse(fmt::format("example {}: '{}': expected {}, label and key", index, item.key(), input));
  }
  online::Example result;
  if (example.contains("key")) result.key = member(example, "key", index);
  if (result.key.size() > kMostKeyBytes)
    refuse(fmt::format("example {}: a key of {} bytes: expected at most {}", index,
                       result.key.size(), kMostKeyBytes));
  const auto label = example.find("label");
  const bool removes = label != example.end() && label->is_null();
  // What is taken back is known by its key alone, where it was given one.
  if (const auto text = example.find(kText);
      text != example.end() && text->is_string() &&
      text->get_ref<const std::string&>().size() > train::kMostTextBytes)
    refuse(fmt::format("example {}: \"text\" has {} bytes, expected at most {}", index,
                       text->get_ref<const std::string&>().size(), train::kMostTextBytes));
  if (!removes || result.key.empty())
    result.input =
        input == kText ? member(example, kText, index) : image(example, index, codec, until);
  if (!removes) result.label = label_of(example, index, codec, labels);
  return result;
}

// What the model takes, texts or images. Throws RequestError (conflict) where it is neither.
std::string input_of(const Codec& codec) {
  const auto& inputs = codec.inputs();
  if (inputs.size() != 1 || (inputs[0].name != kText && inputs[0].name != kImage) ||
      (codec.labels().empty() && !codec.learns_to_write()))
    throw RequestError(
        Refusal::conflict,
        "the model neither classifies texts or images nor writes texts: it takes no examples");
  return inputs[0].name;
}

std::vector<online::Example> parse_examples(const http::Request& request, const Codec& codec) {
  const std::string input = input_of(codec);
  const json parsed = parse_json(request.body, request.memory.get());
  const auto list = parsed.is_object() ? parsed.find("examples") : parsed.end();
  if (!parsed.is_object() || list == parsed.end() || !list->is_array())
    refuse(fmt::format(R"(expected {{"examples": [{{"{}": …{}}}, …]}})", input,
                       codec.learns_to_write() ? "" : R"(, "label": …)"));
  if (list->size() > static_cast<std::size_t>(kMostAtOnce))
    throw RequestError(Refusal::too_large,
                       fmt::format("{} examples, expected at most {}", list->size(), kMostAtOnce));
  const auto labels = codec.labels();
  const auto until = std::chrono::steady_clock::now() + kDecodingLimit;
  std::vector<online::Example> examples;
  for (const json& example : *list)
    examples.push_back(parse_example(example, examples.size(), input, codec, labels, until));
  return examples;
}

}  // namespace

void ExamplesApi::post(const std::string& model, const Codec& codec, const http::Request& request,
                       const std::string& author, const http::Respond& respond) {
  const auto store = stores_.of(model);
  store->writer.put(parse_examples(request, codec), author,
                    [respond, memory = request.memory](const online::StoreResult& result,
                                                       const std::exception_ptr& error) {
                      if (error) return respond(http::failure_response(error));
                      respond(http::json_response({{"added", result.added},
                                                   {"replaced", result.replaced},
                                                   {"removed", result.removed},
                                                   {"unchanged", result.unchanged},
                                                   {"revision", result.revision}}));
                    });
}

http::Response ExamplesApi::get(const std::string& model, const Codec& codec,
                                const std::string& query) {
  const std::string input = input_of(codec);
  const auto since = http::number_of(query, "since", 0);
  const auto limit = std::min(http::number_of(query, "limit", kUsualLimit), kMostAtOnce);
  const auto model_store = stores_.of(model);
  const online::ExampleStore& store = model_store->examples;
  auto list = json::array();
  for (const online::StoredExample& stored : store.changed_since(since, limit, kMostAnswerBytes)) {
    const auto& [key, given, label] = stored.example;
    list.push_back({{"key", key},
                    {"label", nullptr},
                    {"author", stored.author},
                    {"time", stored.time},
                    {"revision", stored.revision}});
    if (label.empty()) continue;
    list.back()["label"] = label;
    list.back()[input] = input == kText ? json(given) : json({{"b64", encode_base64(given)}});
  }
  return http::json_response(
      {{"examples", std::move(list)}, {"size", store.size()}, {"revision", store.revision()}});
}

}  // namespace sullae::serve
