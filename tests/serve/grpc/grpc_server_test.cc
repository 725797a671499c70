// The gRPC form of the protocol, with a client generated from its definition.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "serve/models.h"
#include "serve/proto/open_inference.grpc.pb.h"
#include "sullae/serve.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

class GrpcTest : public ::testing::Test {
 protected:
  GrpcTest() {
    put_text(directory_.path() / "m" / "config.toml", kConstantConfig);
    put_constant(directory_.path() / "m", 1, 7);
    put_text(directory_.path() / "tokens.toml",
             "[[token]]\nname = \"a\"\nrole = \"infer\"\ntoken = \"aaaaaaaaaaaaaaaa\"\n");
  }
  void start(bool with_tokens = false) {
    ServeOptions options{.repository = directory_.path(), .http_port = 0, .grpc_port = 0};
    options.poll = std::chrono::milliseconds(20);
    options.max_body_bytes = 1 << 20;
    options.max_inflight_bytes = 8 << 20;
    if (with_tokens) options.tokens_file = directory_.path() / "tokens.toml";
    server_.emplace(options);
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->grpc_port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = inference::GRPCInferenceService::NewStub(channel_);
  }
  void start_and_wait(bool with_tokens = false) {
    start(with_tokens);
    wait_until([&] {
      grpc::ClientContext context;
      inference::ServerReadyResponse response;
      return stub_->ServerReady(&context, {}, &response).ok() && response.ready();
    });
  }
  grpc::Status infer(const inference::ModelInferRequest& request,
                     inference::ModelInferResponse& response, const std::string& token = "") {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    return stub_->ModelInfer(&context, request, &response);
  }
  /// What a method of a service that there is no generated client for answers, in bytes.
  std::string ask(const std::string& method, std::string request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    grpc::CompletionQueue queue;
    grpc::GenericStub generic(channel_);
    const auto call = generic.PrepareCall(&context, method, &queue);
    const auto done = [&] {
      void* tag = nullptr;
      bool good = false;
      return queue.Next(&tag, &good) && good;
    };
    call->StartCall(nullptr);
    EXPECT_TRUE(done());
    const grpc::Slice slice(request);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
    done();  // in vain where the server has refused the call by its name already
    grpc::ByteBuffer answer;
    call->Read(&answer, nullptr);
    std::string bytes;
    if (done()) {
      std::vector<grpc::Slice> slices;
      answer.Dump(&slices);
      for (const auto& part : slices)
        bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
    }
    grpc::Status status;
    call->Finish(&status, nullptr);
    EXPECT_TRUE(done());
    return status.ok() ? bytes : status.error_message();
  }
  static inference::ModelInferRequest request() {
    inference::ModelInferRequest request;
    request.set_model_name("m");
    request.set_id("42");
    auto* input = request.add_inputs();
    input->set_name("x");
    input->set_datatype("FP32");
    input->add_shape(1);
    input->add_shape(2);
    return request;
  }

  TemporaryDirectory directory_;
  std::optional<InferenceServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

TEST_F(GrpcTest, SpeaksTheOpenInferenceProtocol) {
  start_and_wait();
  {
    grpc::ClientContext context;
    inference::ServerLiveResponse response;
    EXPECT_TRUE(stub_->ServerLive(&context, {}, &response).ok());
    EXPECT_TRUE(response.live());
  }
  {
    grpc::ClientContext context;
    inference::ServerMetadataResponse response;
    EXPECT_TRUE(stub_->ServerMetadata(&context, {}, &response).ok());
    EXPECT_EQ(response.name(), "sullae");
  }
  {
    grpc::ClientContext context;
    inference::ModelReadyRequest request;
    request.set_name("m");
    inference::ModelReadyResponse response;
    EXPECT_TRUE(stub_->ModelReady(&context, request, &response).ok());
    EXPECT_TRUE(response.ready());
  }
  {
    grpc::ClientContext context;
    inference::ModelMetadataRequest request;
    request.set_name("m");
    request.set_version("1");
    inference::ModelMetadataResponse response;
    EXPECT_TRUE(stub_->ModelMetadata(&context, request, &response).ok());
    EXPECT_EQ(response.platform(), "pytorch_torchscript");
    EXPECT_EQ(response.versions(0), "1");
    EXPECT_EQ(response.inputs(0).name(), "x");
    EXPECT_EQ(response.inputs(0).shape(1), 2);
    EXPECT_EQ(response.outputs(0).datatype(), "FP32");
  }
  for (const bool raw : {false, true}) {
    auto message = request();
    if (raw) {
      message.add_raw_input_contents(std::string(8, '\0'));
    } else {
      message.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
      message.mutable_inputs(0)->mutable_contents()->add_fp32_contents(2);
    }
    inference::ModelInferResponse response;
    const auto status = infer(message, response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.model_name(), "m");
    EXPECT_EQ(response.model_version(), "1");
    EXPECT_EQ(response.id(), "42");
    EXPECT_EQ(response.outputs(0).name(), "y");
    EXPECT_EQ(response.outputs(0).shape_size(), 2);
    float value = 0;
    ASSERT_EQ(response.raw_output_contents(0).size(), sizeof value);
    std::memcpy(&value, response.raw_output_contents(0).data(), sizeof value);
    EXPECT_EQ(value, 7);
  }
}

TEST_F(GrpcTest, SaysWhatIsWrong) {
  start_and_wait();
  const auto expect = [&](const inference::ModelInferRequest& message, grpc::StatusCode code,
                          const char* text) {
    inference::ModelInferResponse response;
    const auto status = infer(message, response);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_TRUE(contains(status.error_message(), text)) << status.error_message();
  };
  auto message = request();
  expect(message, grpc::StatusCode::INVALID_ARGUMENT, "has 2 elements, but the data has 0");
  message.add_raw_input_contents("abc");
  expect(message, grpc::StatusCode::INVALID_ARGUMENT, "has 0 and a part of one");
  message.add_raw_input_contents("abc");
  expect(message, grpc::StatusCode::INVALID_ARGUMENT,
         "raw_input_contents has 2 entries, expected one for each of the 1 inputs");
  message = request();
  message.add_raw_input_contents(std::string(8, '\0'));
  message.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  expect(message, grpc::StatusCode::INVALID_ARGUMENT, "both contents and raw_input_contents");
  message = request();
  message.mutable_inputs(0)->set_datatype("FP16");
  expect(message, grpc::StatusCode::INVALID_ARGUMENT, "FP16 has no typed contents");
  message = request();
  message.mutable_inputs(0)->set_datatype("INT8");
  message.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  message.mutable_inputs(0)->mutable_contents()->add_int_contents(300);
  expect(message, grpc::StatusCode::INVALID_ARGUMENT, "input 'x': 300 is no INT8");
  message = request();
  message.mutable_inputs(0)->set_shape(0, -1);
  message.mutable_inputs(0)->set_datatype("FP32");
  expect(message, grpc::StatusCode::INVALID_ARGUMENT, "has a negative size");
  message = request();
  message.set_model_name("n");
  message.add_raw_input_contents(std::string(8, '\0'));
  expect(message, grpc::StatusCode::NOT_FOUND, "there is no model 'n'");
  message = request();
  message.add_raw_input_contents(std::string(2 << 20, '\0'));
  expect(message, grpc::StatusCode::RESOURCE_EXHAUSTED, "message larger than max");
  message = {};
  for (int i = 0; i < 200000; ++i) message.add_inputs();
  expect(message, grpc::StatusCode::RESOURCE_EXHAUSTED, "more than the 8 MB that all requests may");
  const std::string service = "/inference.GRPCInferenceService/";
  EXPECT_EQ(ask(service + "ModelInfer", "\x0a\x05x"), "this is no inference.ModelInferRequest");
  EXPECT_EQ(ask(service + "ServerLive", std::string(1 << 19, '\0')),
            "a message of 524288 bytes, at most 262144 were expected here");
  EXPECT_EQ(ask(service + "ModelTrain", ""),
            "there is no method /inference.GRPCInferenceService/ModelTrain here");
}

// Whose answer would be taken for what was asked for.
TEST_F(GrpcTest, RefusesWhatItHasNot) {
  start_and_wait();
  inference::ModelInferResponse response;
  auto message = request();
  (*message.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("a");
  EXPECT_EQ(infer(message, response).error_message(),
            "input 'x': there is no shared memory here: expected its data in the message");
  *message.add_inputs() = message.inputs(0);
  message.mutable_inputs(0)->clear_parameters();
  message.mutable_inputs(0)->set_name("y");
  EXPECT_EQ(infer(message, response).error_message(),
            "input 'x': there is no shared memory here: expected its data in the message");
  message = request();
  message.add_raw_input_contents(std::string(8, '\0'));
  auto& output = *message.add_outputs();
  output.set_name("y");
  (*output.mutable_parameters())["classification"].set_int64_param(2);
  EXPECT_TRUE(contains(infer(message, response).error_message(),
                       "output 'y': there is no \"classification\""));
}

TEST_F(GrpcTest, SpeaksTritonsExtensions) {
  start_and_wait();
  inference::ModelInferResponse response;
  auto message = request();
  message.add_raw_input_contents(std::string(8, '\0'));
  ASSERT_TRUE(infer(message, response).ok());
  {
    grpc::ClientContext context;
    inference::ModelConfigRequest asked;
    asked.set_name("m");
    inference::ModelConfigResponse answer;
    ASSERT_TRUE(stub_->ModelConfig(&context, asked, &answer).ok());
    EXPECT_EQ(answer.config().max_batch_size(), 64);
    EXPECT_EQ(answer.config().input(0).data_type(), inference::TYPE_FP32);
    EXPECT_EQ(answer.config().output(0).dims(0), 1);
  }
  for (const char* model : {"", "m"}) {
    grpc::ClientContext context;
    inference::ModelStatisticsRequest asked;
    asked.set_name(model);
    inference::ModelStatisticsResponse answer;
    ASSERT_TRUE(stub_->ModelStatistics(&context, asked, &answer).ok());
    ASSERT_EQ(answer.model_stats_size(), 1);
    EXPECT_EQ(answer.model_stats(0).inference_stats().success().count(), 1U);
    EXPECT_EQ(answer.model_stats(0).inference_count(), 1U);
  }
  {
    grpc::ClientContext context;
    inference::RepositoryIndexResponse answer;
    ASSERT_TRUE(stub_->RepositoryIndex(&context, {}, &answer).ok());
    ASSERT_EQ(answer.models_size(), 1);
    EXPECT_EQ(answer.models(0).state(), "READY");
  }
  const auto load = [&](const inference::RepositoryModelLoadRequest& asked) {
    grpc::ClientContext context;
    inference::RepositoryModelLoadResponse answer;
    return stub_->RepositoryModelLoad(&context, asked, &answer);
  };
  put_constant(directory_.path() / "m", 2, 8);
  inference::RepositoryModelLoadRequest asked;
  asked.set_model_name("m");
  EXPECT_TRUE(load(asked).ok());
  ASSERT_TRUE(infer(message, response).ok());
  EXPECT_EQ(response.model_version(), "2") << "it is there when the call returns";
  asked.set_model_name("n");
  EXPECT_EQ(load(asked).error_code(), grpc::StatusCode::NOT_FOUND);
  (*asked.mutable_parameters())["config"].set_string_param("{}");
  EXPECT_EQ(load(asked).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  grpc::ClientContext context;
  inference::RepositoryModelUnloadResponse answer;
  EXPECT_TRUE(contains(stub_->RepositoryModelUnload(&context, {}, &answer).error_message(),
                       "take the model's folder out"));
}

// Below and above what is parsed at once.
TEST_F(GrpcTest, LargeMessagesAreAnsweredToo) {
  start_and_wait();
  for (const int rows : {1, 64, 65}) {
    auto message = request();
    message.mutable_inputs(0)->set_shape(0, rows);
    const std::string pixels(8 * static_cast<std::size_t>(rows), '\0');
    message.add_raw_input_contents(pixels);
    message.set_id(std::string(300000, 'x'));
    inference::ModelInferResponse response;
    const auto status = infer(message, response);
    if (rows > 64) {
      EXPECT_TRUE(contains(status.error_message(), "at most 64")) << status.error_message();
    } else {
      EXPECT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(response.id(), message.id());
    }
  }
}

// As Kubernetes asks: HealthCheckRequest{service = 1} -> HealthCheckResponse{status = 1}.
TEST_F(GrpcTest, HealthIsTheUsualServiceAndFollowsReadiness) {
  const auto model = directory_.path() / "m";
  put_text(model / "1" / "model.pt", "no module");
  start();
  const std::string service = "inference.GRPCInferenceService";
  const std::string named = '\x0a' + std::string(1, static_cast<char>(service.size())) + service;
  const std::string serving = "\x08\x01";
  const std::string not_serving = "\x08\x02";
  EXPECT_EQ(ask("/grpc.health.v1.Health/Check", ""), not_serving);
  EXPECT_EQ(ask("/grpc.health.v1.Health/Check", named), not_serving);
  EXPECT_NE(ask("/grpc.health.v1.Health/Check", "\x0a\x01x"), not_serving);
  put_constant(model, 2, 7);
  wait_until([&] { return ask("/grpc.health.v1.Health/Check", named) == serving; });
  EXPECT_EQ(ask("/grpc.health.v1.Health/Check", ""), serving);
}

// As Envoy and gRPC's own clients follow it, for as long as they live.
TEST_F(GrpcTest, AServerThatEndsTellsWhoFollowsItsHealth) {
  start_and_wait();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  grpc::CompletionQueue queue;
  grpc::GenericStub generic(channel_);
  const auto call = generic.PrepareCall(&context, "/grpc.health.v1.Health/Watch", &queue);
  const auto done = [&] {
    void* tag = nullptr;
    bool good = false;
    return queue.Next(&tag, &good) && good;
  };
  call->StartCall(nullptr);
  ASSERT_TRUE(done());
  const grpc::Slice nothing("");
  call->WriteLast(grpc::ByteBuffer(&nothing, 1), {}, nullptr);
  ASSERT_TRUE(done());
  const auto heard = [&] {
    grpc::ByteBuffer answer;
    call->Read(&answer, nullptr);
    grpc::Slice slice;
    return done() && answer.DumpToSingleSlice(&slice).ok()
               ? std::string(reinterpret_cast<const char*>(slice.begin()), slice.size())
               : "the end";
  };
  EXPECT_EQ(heard(), "\x08\x01");
  std::thread ending([this] { server_->stop(); });
  EXPECT_EQ(heard(), "\x08\x02");
  EXPECT_EQ(heard(), "the end");
  ending.join();
  grpc::Status status;
  call->Finish(&status, nullptr);
  EXPECT_TRUE(done());
}

// As grpcurl asks: ServerReflectionRequest{list_services = 7, file_containing_symbol = 4,
// file_by_filename = 3}.
TEST_F(GrpcTest, ServicesCanBeListedAndDescribed) {
  start_and_wait();
  const auto field = [](int number, const std::string& text) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(text.size())} + text;
  };
  for (const std::string version : {"v1", "v1alpha"}) {
    const auto reflect = [&](const std::string& request) {
      return ask("/grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo", request);
    };
    const auto services = reflect(field(7, ""));
    EXPECT_TRUE(contains(services, "inference.GRPCInferenceService"));
    EXPECT_TRUE(contains(services, "grpc.health.v1.Health"));
    EXPECT_TRUE(contains(services, "grpc.reflection." + version + ".ServerReflection"));
    EXPECT_TRUE(contains(reflect(field(4, "inference.GRPCInferenceService")), "ModelInferRequest"));
    EXPECT_TRUE(contains(reflect(field(4, "grpc.health.v1.Health")), "HealthCheckResponse"));
    EXPECT_TRUE(
        contains(reflect(field(3, "serve/proto/open_inference.proto")), "ModelInferRequest"));
    EXPECT_TRUE(contains(reflect(field(4, "nobody.Service")), "'nobody.Service' is not known"));
    EXPECT_TRUE(contains(reflect(field(6, "nobody.Type")), "'nobody.Type' is not known"));
    EXPECT_TRUE(contains(reflect(""), "asks for nothing"));
    EXPECT_EQ(reflect("\x3a\x05x"), "this is no grpc.reflection.v1.ServerReflectionRequest");
    EXPECT_EQ(reflect(std::string(1 << 17, '\0')),
              "a message of 131072 bytes, at most 65536 were expected here");
  }
}

TEST_F(GrpcTest, TokensHaveRoles) {
  start_and_wait(/*with_tokens=*/true);
  auto message = request();
  message.add_raw_input_contents(std::string(8, '\0'));
  inference::ModelInferResponse response;
  EXPECT_EQ(infer(message, response).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  // Nor is what a stranger sends parsed, be it a message or not.
  EXPECT_TRUE(contains(ask("/inference.GRPCInferenceService/ModelInfer", "\x0a\x05x"),
                       "expected a header 'Authorization: Bearer TOKEN'"));
  EXPECT_TRUE(infer(message, response, std::string(16, 'a')).ok());
}

}  // namespace
}  // namespace sullae::testing
