// The HTTP form of the Open Inference Protocol v2 and its binary extension, field by field.
#include "serve/protocol/infer_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/request_error.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace serve;

template <class Value>
std::string bytes_of(const std::vector<Value>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)};
}

TEST(InferJson, ReadsARequest) {
  const auto parsed = parse_infer_request(R"({
      "id": "42",
      "parameters": {"something": 3},
      "inputs": [
        {"name": "a", "shape": [2, 2], "datatype": "UINT32", "data": [[1, 2], [3, 4]]},
        {"name": "b", "shape": [3], "datatype": "BOOL", "data": [true, false, 1]},
        {"name": "c", "shape": [2], "datatype": "BYTES", "data": ["정말 좋아요", ""],
         "parameters": {"content_type": "str"}},
        {"name": "d", "shape": [0, 5], "datatype": "FP64", "data": []}],
      "outputs": [{"name": "y"}]})",
                                          std::nullopt);
  EXPECT_EQ(parsed.request.id, "42");
  ASSERT_EQ(parsed.request.inputs.size(), 4U);
  EXPECT_EQ(parsed.request.inputs[0].data, bytes_of<std::uint32_t>({1, 2, 3, 4}));
  EXPECT_EQ(parsed.request.inputs[0].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(parsed.request.inputs[1].data, std::string("\1\0\1", 3));
  EXPECT_EQ(parsed.request.inputs[2].strings, (std::vector<std::string>{"정말 좋아요", ""}));
  EXPECT_EQ(parsed.request.inputs[3].data, "");
  EXPECT_EQ(parsed.request.outputs, (std::vector<std::string>{"y"}));
}

TEST(InferJson, TakesDataFlattenedTooAsTheProtocolAllows) {
  const auto parsed = parse_infer_request(
      R"({"inputs": [{"name": "a", "shape": [2, 2], "datatype": "INT16", "data": [1, -2, 3, 4]}]})",
      std::nullopt);
  EXPECT_EQ(parsed.request.inputs[0].data, bytes_of<std::int16_t>({1, -2, 3, 4}));
}

TEST(InferJson, ReadsEveryTypesLimits) {
  const std::tuple<const char*, std::string, std::string> cases[] = {
      {"UINT8", "[0, 255]", bytes_of<std::uint8_t>({0, 255})},
      {"UINT16", "[0, 65535]", bytes_of<std::uint16_t>({0, 65535})},
      {"UINT64", "[0, 18446744073709551615]", bytes_of<std::uint64_t>({0, ~0ULL})},
      {"INT8", "[-128, 127]", bytes_of<std::int8_t>({-128, 127})},
      {"INT32", "[-2147483648, 2147483647]", bytes_of<std::int32_t>({INT32_MIN, INT32_MAX})},
      {"INT64", "[-9223372036854775808, 9223372036854775807]",
       bytes_of<std::int64_t>({INT64_MIN, INT64_MAX})},
      {"FP32", "[1.5, -2]", bytes_of<float>({1.5F, -2})},
      {"FP64", "[1.5, 1e300]", bytes_of<double>({1.5, 1e300})}};
  for (const auto& [type, data, bytes] : cases) {
    const auto parsed = parse_infer_request(
        fmt::format(R"({{"inputs":[{{"name":"a","shape":[2],"datatype":"{}","data":{}}}]}})", type,
                    data),
        std::nullopt);
    EXPECT_EQ(parsed.request.inputs[0].data, bytes) << type;
  }
}

TEST(InferJson, ReadsBinaryTensors) {
  const std::string text =
      R"({"inputs": [
        {"name": "a", "shape": [2], "datatype": "FP16", "parameters": {"binary_data_size": 4}},
        {"name": "b", "shape": [1], "datatype": "INT32", "data": [7]},
        {"name": "c", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": 11}}],
       "outputs": [{"name": "y", "parameters": {"binary_data": true}}, {"name": "z"}]})";
  const std::string binary =
      std::string("\x00\x3c\x00\x40", 4) + std::string("\3\0\0\0abc\0\0\0\0", 11);
  const auto parsed = parse_infer_request(text + binary, text.size());
  EXPECT_EQ(parsed.request.inputs[0].data, binary.substr(0, 4));
  EXPECT_EQ(parsed.request.inputs[2].strings, (std::vector<std::string>{"abc", ""}));
  EXPECT_TRUE(parsed.binary_outputs.at("y"));
  EXPECT_FALSE(parsed.binary_outputs.at("z"));
}

TEST(InferJson, ReadsABodyThatIsTheOnlyInput) {
  const auto numbers = bytes_of<float>({1, 2, 3, 4, 5, 6});
  const auto rows = parse_raw_request(numbers, {{"x", Datatype::fp32, {-1, 3}}});
  ASSERT_EQ(rows.request.inputs.size(), 1U);
  EXPECT_EQ(rows.request.inputs[0].name, "x");
  EXPECT_EQ(rows.request.inputs[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(rows.request.inputs[0].data, numbers);
  EXPECT_TRUE(rows.binary_by_default);
  const auto picture = parse_raw_request("\xff\xd8", {{"image", Datatype::bytes, {-1}}});
  EXPECT_EQ(picture.request.inputs[0].strings, (std::vector<std::string>{"\xff\xd8"}));
  EXPECT_EQ(picture.request.inputs[0].shape, (std::vector<std::int64_t>{1}));
  EXPECT_THROW(parse_raw_request(numbers, {{"x", Datatype::fp32, {-1, 4}}}), RequestError);
  EXPECT_TRUE(contains(
      error_of([&] {
        parse_raw_request(numbers, {{"x", Datatype::fp32, {-1}}, {"y", Datatype::fp32, {-1}}});
      }),
      "the body is the only input, but the model has 2"));
}

TEST(InferJson, RefusesAnswersThatAreMoreThanTheMemory) {
  const InferResponse response{
      .model_name = "m",
      .outputs = {{.name = "y", .shape = {2000}, .data = std::string(8000, '\0')}}};
  http::Budget budget(90000);
  http::Reservation memory(budget);
  EXPECT_TRUE(contains(error_of([&] { write_infer_response(response, {}, &memory); }),
                       "the answer's JSON would take 0 MB, which is more than all requests may "
                       "(--max-inflight-megabytes 0); ask for tensors as binary data"));
  HttpInferRequest binary;
  binary.binary_by_default = true;
  EXPECT_TRUE(write_infer_response(response, binary, &memory).json_size);
}

TEST(InferJson, WritesAnswers) {
  const InferResponse response{
      .model_name = "m",
      .model_version = "3",
      .outputs = {{.name = "y", .shape = {1, 2}, .data = bytes_of<float>({0.1F, 2})},
                  {.name = "z", .datatype = Datatype::bytes, .shape = {1}, .strings = {"좋음"}}}};
  HttpInferRequest request;
  request.request.id = "42";
  const auto plain = write_infer_response(response, request);
  EXPECT_FALSE(plain.json_size);
  EXPECT_EQ(nlohmann::json::parse(plain.body), nlohmann::json::parse(R"({
      "model_name": "m", "model_version": "3", "id": "42", "outputs": [
        {"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [0.1, 2.0]},
        {"name": "z", "datatype": "BYTES", "shape": [1], "data": ["좋음"]}]})"));

  request.binary_by_default = true;
  request.binary_outputs["z"] = false;
  const auto binary = write_infer_response(response, request);
  ASSERT_TRUE(binary.json_size);
  const auto header = nlohmann::json::parse(binary.body.substr(0, *binary.json_size));
  EXPECT_EQ(header["outputs"][0]["parameters"]["binary_data_size"], 8);
  EXPECT_FALSE(header["outputs"][0].contains("data"));
  EXPECT_EQ(header["outputs"][1]["data"][0], "좋음");
  EXPECT_EQ(binary.body.substr(*binary.json_size), bytes_of<float>({0.1F, 2}));
}

TEST(InferJson, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "the body is no JSON"},
      {"{\"inputs\": [", "the body is no JSON: parse error at line 1, column 13"},
      {"[]", "expected an object with \"inputs\""},
      {"1e999", "the body is no JSON: number overflow"},
      {"{}", "request: \"inputs\" is missing"},
      {R"({"inputs": {}})", "request: \"inputs\" has type object, expected array"},
      {R"({"inputs": [3]})", "\"inputs\": expected objects"},
      {R"({"inputs": [{"name": "a", "shape": [1], "datatype": "FP32",
                       "parameters": {"shared_memory_region": "r"}}]})",
       "input 'a': there is no shared memory here: expected its data in the message"},
      {R"({"inputs": [], "outputs": [{"name": "b", "parameters": {"classification": 2}}]})",
       "output 'b': there is no \"classification\" (class_count) of tensors here"},
      {R"({"inputs": [{"shape": [1]}]})", "input: \"name\" is missing"},
      {R"({"inputs": [{"name": "a", "shape": [1], "datatype": "FLOAT", "data": [1]}]})",
       "datatype 'FLOAT' is not known"},
      {R"({"inputs": [{"name": "a", "datatype": "FP32", "data": [1]}]})",
       "input 'a': \"shape\" is missing"},
      {R"({"inputs": [{"name": "a", "shape": [-1], "datatype": "FP32", "data": [1]}]})",
       "input 'a': \"shape\": expected sizes of 0 and more"},
      {R"({"inputs": [{"name": "a", "shape": [3], "datatype": "FP32", "data": [1, 2]}]})",
       "tensor 'a': shape [3] has 3 elements, but the data has 2"},
      {R"({"inputs": [{"name": "a", "shape": [1], "datatype": "UINT8", "data": [256]}]})",
       "tensor 'a': 256 is no UINT8"},
      {R"({"inputs": [{"name": "a", "shape": [1], "datatype": "UINT8", "data": [-1]}]})",
       "tensor 'a': -1 is no UINT8"},
      {R"({"inputs": [{"name": "a", "shape": [1], "datatype": "FP32", "data": ["1"]}]})",
       "tensor 'a': \"1\" is no FP32"},
      {R"({"inputs": [{"name": "a", "shape": [1], "datatype": "FP32", "data": [1e39]}]})",
       "tensor 'a': 1e+39 is no FP32"},
      {R"({"parameters": {"timeout": 1}, "inputs": []})",
       "parameter \"timeout\": there is no such thing here: timeout_milliseconds in config.toml"},
      {R"({"parameters": {"sequence_id": 1}, "inputs": []})",
       "parameter \"sequence_id\": there is no such thing here"},
      {R"({"inputs": [{"name": "a", "shape": [1], "datatype": "FP16", "data": [1]}]})",
       "FP16 has no JSON form"},
      {R"({"inputs": [{"name": "a", "shape": [100000, 100000, 100000], "datatype": "FP32",
           "data": [1]}]})",
       "has more than"},
      {R"({"inputs": [{"name": "a", "shape": [1], "datatype": "FP32",
           "parameters": {"binary_data_size": 4}}]})",
       "4 bytes of binary data announced, 0 are there"},
      {R"({"inputs": [], "outputs": [{}]})", "output: \"name\" is missing"},
      {R"({"inputs": [], "id": 3})", "\"id\": expected a text"}};
  for (const auto& [body, message] : cases) {
    const auto error = error_of([&] { parse_infer_request(body, std::nullopt); });
    EXPECT_TRUE(contains(error, message)) << body << "\n" << error;
  }
  EXPECT_TRUE(
      contains(error_of([] { parse_infer_request(std::string(1000000, '['), std::nullopt); }),
               "the body is nested more than 64 deep"));
  EXPECT_TRUE(contains(error_of([] { parse_infer_request("{}", 3); }),
                       "Inference-Header-Content-Length is 3, but the body has 2 bytes"));
  EXPECT_TRUE(contains(error_of([] { parse_infer_request(R"({"inputs": []}xy)", 14); }),
                       "2 bytes of binary data belong to no input"));
  const std::int64_t huge = std::int64_t{1} << 30;
  EXPECT_TRUE(contains(error_of([&] {
                         parse_raw_request("", {{"a", Datatype::fp32, {-1, huge, huge, 16}}});
                       }),
                       "the model's only input is too large"));
  EXPECT_TRUE(contains(error_of([] { split_strings(std::string("\5\0\0\0abc", 7), "a"); }),
                       "tensor 'a': its BYTES end within an element"));
}

}  // namespace
}  // namespace sullae::testing
