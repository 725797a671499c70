#include "serve/protocol/predict.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace serve;
using nlohmann::json;

std::unique_ptr<Codec> two_inputs() {
  return make_tensor_codec({{"a", Datatype::fp32, {-1, 2}}, {"b", Datatype::int64, {-1}}},
                           {{"y", Datatype::fp32, {-1}}}, /*batched=*/true);
}
std::unique_ptr<Codec> texts() {
  return make_text_codec({.recipe = "nsmc",
                          .input = train::InputKind::text,
                          .numbers = {{"max-words", 4}, {"normalise", 0}, {"word-pairs", 0}},
                          .classes = {},
                          .words = {"좋아요"}});
}

TEST(Predict, RowsBecomeColumns) {
  const auto codec = two_inputs();
  const auto request = predict_request(
      json::parse(R"({"instances": [{"a": [1, 2], "b": 7}, {"b": 8, "a": [3, 4]}]})"), *codec);
  ASSERT_EQ(request.inputs.size(), 2U);
  EXPECT_EQ(request.inputs[0].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(request.inputs[1].shape, (std::vector<std::int64_t>{2}));
  float second[2];
  std::memcpy(second, request.inputs[0].data.data() + 8, 8);
  EXPECT_EQ(second[0], 3);
}

TEST(Predict, ColumnsStayColumns) {
  const auto codec = two_inputs();
  const auto request =
      predict_request(json::parse(R"({"inputs": {"a": [[1, 2]], "b": [7]}})"), *codec);
  EXPECT_EQ(request.inputs[0].shape, (std::vector<std::int64_t>{1, 2}));
}

TEST(Predict, ASingleInputNeedsNoName) {
  const auto codec = texts();
  for (const char* body :
       {R"({"instances": ["정말 좋아요", "b"]})",
        R"({"instances": [{"text": "정말 좋아요"}, {"text": "b"}]})",
        R"({"signature_name": "serving_default", "inputs": ["정말 좋아요", "b"]})",
        R"({"instances": [{"b64": "7KCV66eQIOyii+yVhOyalA=="}, "b"]})"}) {
    const auto request = predict_request(json::parse(body), *codec);
    EXPECT_EQ(request.inputs[0].strings, (std::vector<std::string>{"정말 좋아요", "b"})) << body;
  }
}

TEST(Predict, AnswersInTheFormOfTheRequest) {
  const std::vector<InferTensor> outputs = {
      {.name = "label", .datatype = Datatype::bytes, .shape = {2}, .strings = {"good", "bad"}},
      {.name = "p",
       .datatype = Datatype::int8,
       .shape = {2, 2},
       .data = std::string("\1\2\3\4", 4)}};
  EXPECT_EQ(predict_response(outputs, PredictForm::rows),
            json::parse(R"({"predictions": [{"label": "good", "p": [1, 2]},
                                            {"label": "bad", "p": [3, 4]}]})"));
  EXPECT_EQ(predict_response(outputs, PredictForm::columns),
            json::parse(R"({"outputs": {"label": ["good", "bad"], "p": [[1, 2], [3, 4]]}})"));
  EXPECT_EQ(predict_response({outputs[1]}, PredictForm::rows),
            json::parse(R"({"predictions": [[1, 2], [3, 4]]})"));
}

TEST(Predict, SaysWhatIsWrong) {
  const auto codec = two_inputs();
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "expected an object with either \"instances\" or \"inputs\""},
      {R"({"instances": [], "inputs": []})", "either \"instances\" or \"inputs\""},
      {R"({"instances": [1], "signature_name": "other"})",
       "\"signature_name\": there is one, \"serving_default\""},
      {R"({"instances": []})", "expected a list of at least one instance"},
      {R"({"instances": [{"a": [1, 2]}]})", "input 'b' is missing"},
      {R"({"instances": [{"a": [1, 2], "b": 1, "c": 1}]})", "there is no input 'c'"},
      {R"({"instances": [[1, 2]]})", "expected objects with the 2 inputs' names"},
      {R"({"instances": [{"a": [1, 2], "b": 1}, 3]})", "expected all to be objects, or none"},
      {R"({"instances": [{"a": [1, 2], "b": 1}, {"a": [1], "b": 1}]})",
       "input 'a': lists that differ in length or depth: expected [2, 2] throughout"},
      {R"({"inputs": {"a": [[1, 2], [3], [4, 5, 6]], "b": [1, 1, 1]}})",
       "expected [3, 2] throughout"},
      {R"({"inputs": {"a": [[1, 2], [3, [4]]], "b": [1, 1]}})", "expected [2, 2] throughout"},
      {R"({"inputs": [1]})", "expected an object with the 2 inputs' names"}};
  for (const auto& [body, message] : cases) {
    const auto error = error_of([&] { predict_request(json::parse(body), *codec); });
    EXPECT_TRUE(contains(error, message)) << body << "\n" << error;
  }
  EXPECT_TRUE(contains(
      error_of([] { predict_request(json::parse(R"({"instances": [{"b64": "*"}]})"), *texts()); }),
      "is no base64"));
  EXPECT_EQ(error_of([] {
              const auto request =
                  predict_request(json::parse(R"({"instances": [["good", "film"]]})"), *texts());
              texts()->decode(request);
            }),
            "input 'text': expected one element for each row, got [1, 2]");
  const auto one = predict_request(json::parse(R"({"instances": [["good film"]]})"), *texts());
  EXPECT_EQ(texts()->decode(one).count, 1);
}

}  // namespace
}  // namespace sullae::testing
