#include "serve/grpc/wire.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <algorithm>

#include "base/request_error.h"

namespace sullae::serve {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::MessageFactory;
using google::protobuf::io::CodedInputStream;

// https://protobuf.dev/programming-guides/encoding/
enum class WireType { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };

// With what the allocator adds, and pointers to it.
constexpr std::size_t kObjectBytes = 64;
constexpr std::size_t kEntryBytes = 256;
// An object, in the message and in the tensor that it moves to.
constexpr std::size_t kMessageTextBytes = 128;
// Vectors grow by doubling, and the tensor has a copy.
constexpr std::size_t kCopies = 3;

[[noreturn]] void refuse_message(const Descriptor& type) {
  refuse(fmt::format("this is no {}", type.full_name()));
}

bool is_number(const FieldDescriptor& field) {
  return field.cpp_type() != FieldDescriptor::CPPTYPE_STRING &&
         field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE;
}

std::size_t size_of(const FieldDescriptor& number) {
  switch (number.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return 1;
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return 8;
    default:
      return 4;
  }
}

std::size_t bytes_of_empty(const Descriptor& type) {
  // Those of maps are no messages in memory.
  if (type.options().map_entry()) return kEntryBytes;
  return kObjectBytes + MessageFactory::generated_factory()->GetPrototype(&type)->SpaceUsedLong();
}

class Counter {
 public:
  Counter(CodedInputStream& in, std::size_t limit) : in_(in), limit_(limit) {}

  std::size_t bytes() const { return bytes_; }

  /// False where it stopped, beyond the limit.
  bool add_message(const Descriptor& type) {
    bytes_ += bytes_of_empty(type);
    while (const std::uint32_t tag = in_.ReadTag()) {
      if (!add_field(type, tag)) return false;
      if (bytes_ > limit_) return false;
    }
    if (!in_.ConsumedEntireMessage()) refuse_message(type);
    return true;
  }

 private:
  bool add_field(const Descriptor& type, std::uint32_t tag) {
    const auto* field = type.FindFieldByNumber(static_cast<int>(tag >> 3));
    const auto skip = [&](std::uint64_t size) {
      if (size > kMost || !in_.Skip(static_cast<int>(size))) refuse_message(type);
    };
    switch (static_cast<WireType>(tag & 7)) {
      case WireType::varint:
        if (std::uint64_t value = 0; !in_.ReadVarint64(&value)) refuse_message(type);
        break;
      case WireType::fixed64:
        skip(8);
        break;
      case WireType::fixed32:
        skip(4);
        break;
      case WireType::delimited: {
        std::uint32_t size = 0;
        if (!in_.ReadVarint32(&size) || size > kMost) refuse_message(type);
        return add_delimited(type, field, size);
      }
      default:  // groups, which proto3 does not have
        refuse_message(type);
    }
    // As if it were unknown, as a field of another type than was sent is too: those are kept as
    // objects.
    bytes_ += kObjectBytes;
    return true;
  }

  bool add_delimited(const Descriptor& type, const FieldDescriptor* field, std::uint32_t size) {
    if (field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const auto outer = in_.PushLimit(static_cast<int>(size));
      if (in_.BytesUntilLimit() != static_cast<int>(size))
        refuse_message(type);  // beyond its parent
      if (!add_message(*field->message_type())) return false;
      if (in_.BytesUntilLimit() != 0) refuse_message(type);
      in_.PopLimit(outer);
      return true;
    }
    if (field != nullptr && is_number(*field)) {
      bytes_ += kObjectBytes + kCopies * size_of(*field) * count_packed(type, *field, size);
      return true;
    }
    bytes_ += kMessageTextBytes + size;
    if (!in_.Skip(static_cast<int>(size))) refuse_message(type);
    return true;
  }

  /// Numbers in `size` bytes.
  std::size_t count_packed(const Descriptor& type, const FieldDescriptor& field,
                           std::uint32_t size) {
    switch (field.type()) {
      case FieldDescriptor::TYPE_FLOAT:
      case FieldDescriptor::TYPE_DOUBLE:
      case FieldDescriptor::TYPE_FIXED32:
      case FieldDescriptor::TYPE_FIXED64:
      case FieldDescriptor::TYPE_SFIXED32:
      case FieldDescriptor::TYPE_SFIXED64:
        if (!in_.Skip(static_cast<int>(size))) refuse_message(type);
        return size / size_of(field);
      default:
        break;
    }
    std::size_t count = 0;
    for (auto left = static_cast<std::ptrdiff_t>(size); left > 0;) {
      const void* data = nullptr;
      int available = 0;
      if (!in_.GetDirectBufferPointer(&data, &available)) refuse_message(type);
      const auto part = std::min<std::ptrdiff_t>(left, available);
      const auto* bytes = static_cast<const unsigned char*>(data);
      // The last byte of each has its highest bit clear.
      count += static_cast<std::size_t>(
          std::count_if(bytes, bytes + part, [](unsigned char byte) { return byte < 0x80; }));
      in_.Skip(static_cast<int>(part));
      left -= part;
    }
    return count;
  }

  // Of a field; streams count in int.
  static constexpr std::uint64_t kMost = 0x7fffffff;

  CodedInputStream& in_;
  std::size_t limit_;
  std::size_t bytes_ = 0;
};

class WireStream {
 public:
  explicit WireStream(const grpc::ByteBuffer& wire) : shared_(wire), reader_(&shared_) {
    if (!reader_.status().ok()) throw Error(reader_.status().error_message());
  }
  google::protobuf::io::ZeroCopyInputStream& get() { return reader_; }

 private:
  grpc::ByteBuffer shared_;  // the reader wants one that it may change
  grpc::ProtoBufferReader reader_;
};

constexpr std::size_t megabytes(std::size_t bytes) { return bytes >> 20; }

}  // namespace

std::size_t memory_of(const grpc::ByteBuffer& wire, const Descriptor& type, std::size_t limit) {
  WireStream stream(wire);
  CodedInputStream in(&stream.get());
  Counter counter(in, limit);
  counter.add_message(type);
  return counter.bytes();
}

void deserialize(const grpc::ByteBuffer& wire, google::protobuf::Message& message) {
  WireStream stream(wire);
  if (!message.ParseFromZeroCopyStream(&stream.get())) refuse_message(*message.GetDescriptor());
}

void parse(const grpc::ByteBuffer& wire, http::Reservation& memory,
           google::protobuf::Message& message) {
  const auto& type = *message.GetDescriptor();
  const std::size_t limit = memory.budget().limit();
  const std::size_t bytes = memory_of(wire, type, limit);
  if (bytes > limit)
    throw RequestError(Refusal::too_large,
                       fmt::format("the message would take more than the {} MB that all requests "
                                   "may (--max-inflight-megabytes); send tensors as "
                                   "raw_input_contents",
                                   megabytes(limit)));
  if (!memory.grow_to(bytes)) throw RequestError(Refusal::unavailable, http::kNoMemoryLeft);
  deserialize(wire, message);
}

grpc::ByteBuffer serialize(const google::protobuf::Message& message) {
  grpc::ByteBuffer wire;
  bool own = false;
  const auto status = grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::Message>(
      message, &wire, &own);
  if (!status.ok()) throw Error(status.error_message());
  return wire;
}

}  // namespace sullae::serve
