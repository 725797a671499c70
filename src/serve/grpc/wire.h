// gRPC's messages as bytes: what they would take in memory is counted before they are parsed.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>

#include "http/budget.h"

namespace sullae::serve {

/// At most how many bytes `wire` takes when it is parsed as a message of `type`, and when its
/// numbers are copied once. Empty fields, of two bytes on the wire, are objects of hundreds in
/// memory. Numbers count for what they are where they are packed. Counts no further than beyond
/// `limit`. Throws RequestError (invalid) for what is no such message.
std::size_t memory_of(const grpc::ByteBuffer& wire, const google::protobuf::Descriptor& type,
                      std::size_t limit);

/// Parses `wire`, which is known to be small, into `message`. Throws RequestError (invalid).
void deserialize(const grpc::ByteBuffer& wire, google::protobuf::Message& message);

/// Parses `wire` into `message`, for which `memory` is reserved first. Throws RequestError
/// (invalid; too_large and unavailable where memory does not allow it).
void parse(const grpc::ByteBuffer& wire, http::Reservation& memory,
           google::protobuf::Message& message);

/// Throws Error.
grpc::ByteBuffer serialize(const google::protobuf::Message& message);

}  // namespace sullae::serve
