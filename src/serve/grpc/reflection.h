// gRPC's server reflection, by which grpcurl and its like learn what a server offers
// (https://grpc.io/docs/guides/reflection). The library's own parses messages of any size.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <string>
#include <vector>

namespace sullae::serve {

/// Answers reflection in its versions v1 and v1alpha, whose messages are the same; other methods
/// than those of registered services get the status UNIMPLEMENTED. gRPC calls it, in its threads.
class Reflection final : public grpc::CallbackGenericService {
 public:
  /// The full names of what is to be listed.
  explicit Reflection(std::vector<std::string> services) : services_(std::move(services)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  std::vector<std::string> services_;
};

}  // namespace sullae::serve
