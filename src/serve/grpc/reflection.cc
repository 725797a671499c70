#include "serve/grpc/reflection.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <set>
#include <string_view>

#include "base/request_error.h"
#include "serve/grpc/wire.h"
#include "serve/proto/health.pb.h"
#include "serve/proto/reflection.pb.h"

namespace sullae::serve {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::Status;
using grpc::StatusCode;
using grpc::reflection::v1::FileDescriptorResponse;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

// Requests are names.
constexpr std::size_t kMaxRequestBytes = 64 << 10;

constexpr std::string_view kMethods[] = {
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"};

/// Adds `file` behind what it imports.
void add_files(const FileDescriptor& file, std::set<const FileDescriptor*>& added,
               FileDescriptorResponse& response) {
  if (!added.insert(&file).second) return;
  for (int i = 0; i < file.dependency_count(); ++i) add_files(*file.dependency(i), added, response);
  google::protobuf::FileDescriptorProto definition;
  file.CopyTo(&definition);
  response.add_file_descriptor_proto(definition.SerializeAsString());
}

void fail(ServerReflectionResponse& response, StatusCode code, const std::string& message) {
  response.mutable_error_response()->set_error_code(code);
  response.mutable_error_response()->set_error_message(message);
}

ServerReflectionResponse reflect(const ServerReflectionRequest& request,
                                 const std::vector<std::string>& services) {
  // Files that nothing refers to would not be linked, and so not be in the pool.
  google::protobuf::LinkMessageReflection<grpc::health::v1::HealthCheckRequest>();
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  const auto answer = [&](const FileDescriptor* file, const std::string& name) {
    if (file == nullptr) {
      fail(response, StatusCode::NOT_FOUND, fmt::format("'{}' is not known", name));
      return;
    }
    std::set<const FileDescriptor*> added;
    add_files(*file, added, *response.mutable_file_descriptor_response());
  };
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      answer(pool.FindFileByName(request.file_by_filename()), request.file_by_filename());
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      answer(pool.FindFileContainingSymbol(request.file_containing_symbol()),
             request.file_containing_symbol());
      break;
    case ServerReflectionRequest::kListServices:
      for (const auto& name : services)
        response.mutable_list_services_response()->add_service()->set_name(name);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType: {
      const auto& type = request.all_extension_numbers_of_type();
      if (pool.FindMessageTypeByName(type) == nullptr) {
        answer(nullptr, type);
      } else {
        response.mutable_all_extension_numbers_response()->set_base_type_name(type);
      }
      break;
    }
    case ServerReflectionRequest::kFileContainingExtension:
      answer(nullptr, request.file_containing_extension().containing_type());
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      fail(response, StatusCode::INVALID_ARGUMENT, "the request asks for nothing");
      break;
  }
  return response;
}

/// A client's stream: answers each request before it reads the next.
class Stream final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Stream(const std::vector<std::string>& services) : services_(services) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(Status::OK);
      return;
    }
    ServerReflectionRequest request;
    if (request_.Length() > kMaxRequestBytes) {
      Finish({StatusCode::RESOURCE_EXHAUSTED,
              fmt::format("a message of {} bytes, at most {} were expected here", request_.Length(),
                          kMaxRequestBytes)});
      return;
    }
    try {
      deserialize(request_, request);
      response_ = serialize(reflect(request, services_));
    } catch (const RequestError& error) {
      Finish({StatusCode::INVALID_ARGUMENT, error.what()});
      return;
    } catch (const std::exception& error) {
      Finish({StatusCode::INTERNAL, error.what()});
      return;
    }
    StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      StartRead(&request_);
    } else {
      Finish({StatusCode::CANCELLED, "the client has gone"});
    }
  }

  void OnDone() override { delete this; }

 private:
  const std::vector<std::string>& services_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
};

class UnknownMethod final : public grpc::ServerGenericBidiReactor {
 public:
  explicit UnknownMethod(const std::string& method) {
    Finish({StatusCode::UNIMPLEMENTED, fmt::format("there is no method {} here", method)});
  }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerGenericBidiReactor* Reflection::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  for (const auto method : kMethods) {
    if (context->method() == method) return new Stream(services_);
  }
  return new UnknownMethod(context->method());
}

}  // namespace sullae::serve
