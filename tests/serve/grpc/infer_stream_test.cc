// Requests of one stream, and texts that go on, with a client generated from the protocol's
// definition.
#include "serve/grpc/infer_stream.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "serve/proto/open_inference.grpc.pb.h"
#include "serve/protocol/infer_json.h"
#include "serve/writer_server.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;

class InferStreams : public WriterServerTest {
 protected:
  void SetUp() override {
    ready();
    http_.emplace(server_->http_port());
    connect();
  }
  void connect() {
    stub_ = inference::GRPCInferenceService::NewStub(grpc::CreateChannel(
        "127.0.0.1:" + std::to_string(server_->grpc_port()), grpc::InsecureChannelCredentials()));
  }

  struct Client {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<ModelInferRequest, ModelStreamInferResponse>> stream;

    ModelStreamInferResponse read() {
      ModelStreamInferResponse response;
      EXPECT_TRUE(stream->Read(&response));
      return response;
    }
    // All that is left, where no request follows.
    std::vector<ModelStreamInferResponse> read_all(grpc::StatusCode code = grpc::StatusCode::OK) {
      stream->WritesDone();
      return read_rest(code);
    }
    // Which may write yet, and does not: to a server that is gone it would lose what is not read.
    std::vector<ModelStreamInferResponse> read_rest(grpc::StatusCode code) {
      std::vector<ModelStreamInferResponse> all;
      for (ModelStreamInferResponse one; stream->Read(&one);) all.push_back(one);
      const auto status = stream->Finish();
      EXPECT_EQ(status.error_code(), code) << status.error_message();
      return all;
    }
  };
  std::unique_ptr<Client> open(const std::string& token = "") {
    auto client = std::make_unique<Client>();
    client->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    if (!token.empty()) client->context.AddMetadata("authorization", "Bearer " + token);
    client->stream = stub_->ModelStreamInfer(&client->context);
    return client;
  }
  grpc::Status infer(const ModelInferRequest& request, ModelInferResponse& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    return stub_->ModelInfer(&context, request, &response);
  }

  static ModelInferRequest numbers(const std::string& id, const std::string& model = "m") {
    ModelInferRequest request;
    request.set_model_name(model);
    request.set_id(id);
    auto* input = request.add_inputs();
    input->set_name("x");
    input->set_datatype("FP32");
    input->add_shape(1);
    input->add_shape(2);
    input->mutable_contents()->add_fp32_contents(1);
    input->mutable_contents()->add_fp32_contents(2);
    return request;
  }
  // Clients of Triton's language models send matrices of one element, or vectors.
  static ModelInferRequest prompt(const std::string& text, int tokens, bool matrix = false) {
    ModelInferRequest request;
    request.set_model_name("writer");
    request.set_id("7");
    auto* input = request.add_inputs();
    input->set_name("text_input");
    input->set_datatype("BYTES");
    input->add_shape(1);
    if (matrix) input->add_shape(1);
    input->mutable_contents()->add_bytes_contents(text);
    set(request, "max_tokens").set_int64_param(tokens);
    set(request, "temperature").set_double_param(0);
    return request;
  }
  static inference::InferParameter& set(ModelInferRequest& request, const std::string& name) {
    return (*request.mutable_parameters())[name];
  }
  static inference::InferTensorContents& add_input(ModelInferRequest& request, const char* name,
                                                   const char* type, std::int64_t size = 1) {
    auto* input = request.add_inputs();
    input->set_name(name);
    input->set_datatype(type);
    input->add_shape(size);
    return *input->mutable_contents();
  }

  static std::string text_of(const ModelInferResponse& response) {
    EXPECT_EQ(response.outputs(0).name(), "text_output");
    return split_strings(response.raw_output_contents(0), "text_output").at(0);
  }
  static bool is_last(const ModelStreamInferResponse& response) {
    return response.infer_response().parameters().at("triton_final_response").bool_param();
  }

  std::optional<HttpClient> http_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

TEST_F(InferStreams, AnswersEachRequestAndGoesOnBehindMistakes) {
  const auto client = open();
  client->stream->Write(numbers("1"));
  const auto first = client->read();
  EXPECT_EQ(first.error_message(), "");
  EXPECT_EQ(first.infer_response().id(), "1");
  EXPECT_EQ(first.infer_response().model_name(), "m");
  EXPECT_EQ(first.infer_response().outputs(0).name(), "y");
  EXPECT_TRUE(is_last(first));
  client->stream->Write(numbers("2", "n"));
  const auto second = client->read();
  EXPECT_EQ(second.error_message(), "there is no model 'n'");
  EXPECT_EQ(second.infer_response().id(), "2");
  EXPECT_EQ(second.infer_response().outputs_size(), 0);
  // More than may be open at a time, before any answer is read; some too large to be parsed at
  // once.
  std::thread writer([&] {
    for (int i = 0; i < 1000; ++i) {
      auto request = numbers(std::to_string(i));
      if (i % 100 == 0) request.set_id(std::string(300000, static_cast<char>('a' + i / 100)));
      client->stream->Write(request);
    }
    client->stream->WritesDone();
  });
  std::map<std::string, int> answered;
  for (ModelStreamInferResponse one; client->stream->Read(&one);) {
    EXPECT_EQ(one.error_message(), "");
    ++answered[one.infer_response().id()];
  }
  writer.join();
  EXPECT_EQ(answered.size(), 1000U);
  EXPECT_TRUE(client->stream->Finish().ok());
}

TEST_F(InferStreams, SendATextAsItIsWritten) {
  for (const bool matrix : {false, true}) {
    const auto client = open();
    client->stream->Write(prompt("one two", 3, matrix));
    const auto answers = client->read_all();
    ASSERT_FALSE(answers.empty());  // what waits is joined
    std::string text;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const auto& response = answers[i].infer_response();
      EXPECT_EQ(answers[i].error_message(), "");
      EXPECT_EQ(response.id(), "7");
      EXPECT_EQ(response.model_name(), "writer");
      EXPECT_EQ(response.model_version(), "1");
      EXPECT_EQ(response.outputs(0).shape_size(), matrix ? 2 : 1);
      EXPECT_EQ(is_last(answers[i]), i + 1 == answers.size());
      text += text_of(response);
    }
    EXPECT_EQ(text, " three four five");
    const auto& last = answers.back().infer_response();
    EXPECT_EQ(last.outputs(1).name(), "finish_reason");
    EXPECT_EQ(split_strings(last.raw_output_contents(1), "").at(0), "length");
    EXPECT_EQ(last.outputs(2).name(), "tokens");
    EXPECT_EQ(last.outputs(2).datatype(), "INT64");
    EXPECT_EQ(last.raw_output_contents(2), std::string("\3\0\0\0\0\0\0\0", 8));
  }
}

// As clients of Triton's language models ask: settings as tensors, one output, the end as an answer
// of its own.
TEST_F(InferStreams, TakeWhatClientsOfTritonSend) {
  auto request = prompt("one two", 100);
  request.clear_parameters();
  add_input(request, "max_tokens", "INT32").add_int_contents(2);
  add_input(request, "temperature", "FP32").add_fp32_contents(0);
  add_input(request, "stream", "BOOL").add_bool_contents(true);
  request.add_outputs()->set_name("text_output");
  set(request, "triton_enable_empty_final_response").set_bool_param(true);
  auto client = open();
  client->stream->Write(request);
  auto answers = client->read_all();
  ASSERT_GE(answers.size(), 2U);
  const auto end = answers.back();
  answers.pop_back();
  EXPECT_EQ(end.infer_response().outputs_size(), 0);
  EXPECT_TRUE(is_last(end));
  std::string text;
  for (const auto& one : answers) {
    EXPECT_EQ(one.infer_response().outputs_size(), 1);
    EXPECT_FALSE(is_last(one));
    text += text_of(one.infer_response());
  }
  EXPECT_EQ(text, " three four");
  // Whole, where it is asked for, and from ModelInfer.
  request.mutable_inputs(3)->mutable_contents()->set_bool_contents(0, false);
  request.mutable_parameters()->clear();
  client = open();
  client->stream->Write(request);
  answers = client->read_all();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(text_of(answers[0].infer_response()), " three four");
  ModelInferResponse response;
  const auto status = infer(request, response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(text_of(response), " three four");
  // A language model answers what it did before, too.
  ModelInferRequest next = prompt("five six", 1);
  next.mutable_inputs(0)->set_name("text");
  next.clear_parameters();
  EXPECT_TRUE(infer(next, response).ok());
  EXPECT_EQ(response.outputs(0).name(), "next");
}

// However few answers its client has read, a text is what it is.
TEST_F(InferStreams, WhatWaitsOfATextIsOneAnswer) {
  const auto client = open();
  const auto request = prompt("one", 3000);
  client->stream->Write(request);
  wait_until([&] { return of_writer(*http_, "success") == 1; });
  std::string text;
  for (const auto& one : client->read_all()) text += text_of(one.infer_response());
  ModelInferResponse whole;
  ASSERT_TRUE(infer(request, whole).ok());
  EXPECT_EQ(text, text_of(whole));
  EXPECT_GT(text.size(), 10000U);
}

TEST_F(InferStreams, SayWhatIsWrongWithARequest) {
  const auto client = open();
  const auto error = [&](const ModelInferRequest& request) {
    client->stream->Write(request);
    const auto response = client->read();
    EXPECT_TRUE(is_last(response));
    EXPECT_EQ(response.infer_response().id(), "7");
    return response.error_message();
  };
  auto request = prompt("one", 0);
  EXPECT_EQ(error(request), "\"max_tokens\": 0: expected 1 to 8192");
  request = prompt("one", 3);
  set(request, "max_token").set_int64_param(3);
  EXPECT_TRUE(
      contains(error(request), "there is no parameter \"max_token\"; there are max_tokens"));
  request = prompt("one", 3);
  set(request, "seed");
  EXPECT_EQ(error(request), "parameter 'seed' has no value");
  request = prompt("one", 3);
  set(request, "seed").set_string_param("3");
  EXPECT_EQ(error(request), "\"seed\": expected a whole number, got \"3\"");
  request = prompt("one", 3);
  set(request, "stream").set_int64_param(1);
  EXPECT_EQ(error(request), "'stream': expected true or false");
  request = prompt("one", 3);
  add_input(request, "max_tokens", "INT32").add_int_contents(3);
  EXPECT_EQ(error(request),
            "'max_tokens' is there twice: expected one input, or one parameter, of the name");
  request = prompt("one", 3);
  add_input(request, "top_k", "INT32", 0);
  EXPECT_EQ(error(request), "input 'top_k': expected one element, as one text goes on");
  request = prompt("one", 3);
  request.mutable_inputs(0)->set_shape(0, 2);
  request.mutable_inputs(0)->mutable_contents()->add_bytes_contents("two");
  EXPECT_EQ(error(request), "expected one text, got 2");
  request = prompt("one", 3);
  request.add_outputs()->set_name("text");
  EXPECT_EQ(error(request),
            "there is no output 'text' of a text that goes on; there are text_output, "
            "finish_reason and tokens");
  request = prompt("one", 3);
  request.set_model_name("m");
  EXPECT_EQ(error(request), "there is no input 'text_input': expected 'x'");
  // And where no texts come piece by piece.
  request = prompt("one", 3);
  set(request, "stream").set_bool_param(true);
  ModelInferResponse response;
  EXPECT_EQ(infer(request, response).error_message(),
            "'stream': expected false: texts come whole from ModelInfer, and piece by piece from "
            "ModelStreamInfer");
  // The stream has gone on behind all that.
  client->stream->Write(prompt("one", 1));
  EXPECT_EQ(client->read().error_message(), "");
  EXPECT_TRUE(client->read_all().empty());
}

TEST_F(InferStreams, ATextWhoseClientHasGoneEnds) {
  {
    const auto client = open();
    client->stream->Write(prompt("one", 8192));
    client->read();
    client->context.TryCancel();
  }
  wait_until([&] { return of_writer(*http_, "failure") == 1; });
  EXPECT_LT(of_writer(*http_, "rows"), 8192);
}

TEST_F(InferStreams, AServerThatEndsWaitsForNoneThatIsIdle) {
  const auto idle = open();
  idle->stream->Write(prompt("one", 1));
  EXPECT_EQ(idle->read().error_message(), "");
  // What was asked for is answered.
  const auto busy = open();
  busy->stream->Write(prompt("one", 2000));
  busy->read();
  std::vector<ModelStreamInferResponse> rest;
  std::thread client([&] { rest = busy->read_rest(grpc::StatusCode::UNAVAILABLE); });
  server_->stop();
  client.join();
  EXPECT_TRUE(idle->read_rest(grpc::StatusCode::UNAVAILABLE).empty());
  ASSERT_FALSE(rest.empty());
  EXPECT_TRUE(is_last(rest.back()));
  EXPECT_EQ(rest.back().error_message(), "");
}

TEST_F(InferStreams, ATextThatOutlastsTheDrainTimeoutEndsAtItsNextPiece) {
  server_.reset();
  options_.drain_timeout = std::chrono::milliseconds(20);
  server_.emplace(options_);
  connect();
  HttpClient http(server_->http_port());
  wait_until([&] { return http.get("/v2/models/writer/ready").status == 200; });
  grpc::Status status;
  std::thread client([&] {
    ModelInferResponse response;
    status = infer(prompt("one", 8192), response);
  });
  wait_until([&] { return of_writer(http, "rows") > 0; });
  server_->stop();
  client.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_EQ(status.error_message(), "the server ends");
}

TEST_F(InferStreams, NeedTheTokenOfTheRole) {
  put_text(directory_.path() / "tokens.toml",
           "[[token]]\nname = \"a\"\nrole = \"infer\"\ntoken = \"aaaaaaaaaaaaaaaa\"\n");
  server_.reset();
  options_.tokens_file = directory_.path() / "tokens.toml";
  server_.emplace(options_);
  connect();
  EXPECT_TRUE(open()->read_all(grpc::StatusCode::UNAUTHENTICATED).empty());
  const auto client = open(std::string(16, 'a'));
  client->stream->Write(numbers("1", "n"));
  EXPECT_EQ(client->read_all().size(), 1U);
}

}  // namespace
}  // namespace sullae::testing
