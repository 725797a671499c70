#include "serve/grpc/wire.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <random>

#include "base/request_error.h"
#include "serve/proto/open_inference.pb.h"
#include "support/errors.h"

namespace sullae::serve {
namespace {

using inference::ModelInferRequest;
using sullae::testing::contains;
using sullae::testing::error_of;

constexpr std::size_t kPlenty = std::size_t{1} << 40;

grpc::ByteBuffer wire_of(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

std::size_t memory_of(const std::string& bytes, std::size_t limit = kPlenty) {
  return serve::memory_of(wire_of(bytes), *ModelInferRequest::descriptor(), limit);
}

std::string repeated(const std::string& part, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += part;
  return all;
}

/// Fields of all kinds, also such as nobody knows.
std::string random_message(std::mt19937& random) {
  const auto below = [&](int end) {
    return std::uniform_int_distribution<int>(0, end - 1)(random);
  };
  const auto text = [&] {
    return std::string(static_cast<std::size_t>(below(40)), 'x');
  };
  ModelInferRequest message;
  message.set_model_name(text());
  for (int i = below(20); i > 0; --i) {
    auto* input = message.add_inputs();
    for (int j = below(6); j > 0; --j) input->add_shape(below(100000));
    auto* contents = input->mutable_contents();
    for (int j = below(300); j > 0; --j) contents->add_int64_contents(below(1000));
    for (int j = below(300); j > 0; --j) contents->add_bool_contents(below(2) == 0);
    for (int j = below(300); j > 0; --j) contents->add_fp64_contents(below(2));
    for (int j = below(300); j > 0; --j) contents->add_bytes_contents(text());
    for (int j = below(5); j > 0; --j)
      (*input->mutable_parameters())[text()].set_string_param(text());
  }
  for (int i = below(300); i > 0; --i) message.add_raw_input_contents(text());
  for (int i = below(300); i > 0; --i) message.add_outputs();
  // Number 100: a number, 8 bytes, 4 bytes, a text.
  const std::string unknown[] = {
      std::string("\xa0\x06\x01", 3), std::string("\xa1\x06", 2) + std::string(8, 'x'),
      std::string("\xa5\x06", 2) + std::string(4, 'x'), std::string("\xa2\x06\x02xx", 5)};
  auto bytes = message.SerializeAsString();
  for (int i = below(300); i > 0; --i) bytes += unknown[below(4)];
  // Not packed, as some clients write them.
  for (int i = below(300); i > 0; --i) bytes += std::string("\x2a\x04\x18\x07\x18\x07", 6);
  return bytes;
}

TEST(Wire, IsCountedForWhatItTakesInMemoryAtLeast) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto bytes = random_message(random);
    ModelInferRequest message;
    ASSERT_TRUE(message.ParseFromString(bytes));
    EXPECT_GE(memory_of(bytes), message.SpaceUsedLong());
  }
}

TEST(Wire, CountsTensorsForLittleMoreThanTheyAre) {
  ModelInferRequest message;
  message.add_raw_input_contents(std::string(1 << 20, 'x'));
  EXPECT_LT(memory_of(message.SerializeAsString()), (1 << 20) + 1024);
  message = {};
  auto* contents = message.add_inputs()->mutable_contents();
  for (int i = 0; i < 1000; ++i) contents->add_fp32_contents(1);
  EXPECT_LT(memory_of(message.SerializeAsString()), 3 * 4000 + 1024);
}

TEST(Wire, EmptyFieldsCountAsTheObjectsThatTheyBecome) {
  for (const std::string field : {"\x2a", "\x32", "\x3a"}) {
    const auto bytes = repeated(field + '\0', 10000);
    ModelInferRequest message;
    ASSERT_TRUE(message.ParseFromString(bytes));
    EXPECT_GE(memory_of(bytes), message.SpaceUsedLong());
    EXPECT_GE(memory_of(bytes), 20 * bytes.size());
    EXPECT_LT(memory_of(bytes, 5000), 6000) << "it counts further than it has to";
  }
}

TEST(Wire, IsReadInPieces) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    const auto bytes = random_message(random);
    std::vector<grpc::Slice> slices;
    for (std::size_t at = 0; at < bytes.size();) {
      const auto size = std::min<std::size_t>(bytes.size() - at, 1 + random() % 50);
      slices.emplace_back(bytes.substr(at, size));
      at += size;
    }
    const grpc::ByteBuffer pieces(slices.data(), slices.size());
    EXPECT_EQ(serve::memory_of(pieces, *ModelInferRequest::descriptor(), kPlenty),
              memory_of(bytes));
    http::Budget budget(kPlenty);
    http::Reservation memory(budget);
    ModelInferRequest message;
    parse(pieces, memory, message);
    ModelInferRequest expected;
    ASSERT_TRUE(expected.ParseFromString(bytes));
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(message, expected));
  }
}

TEST(Wire, WhatIsNoMessageIsRefused) {
  const std::string wrong[] = {
      "\x0a",                              // a field without a value
      "\x0a\x05xx",                        // a text that ends early
      std::string("\x2a\x02\x0a\x05", 4),  // an input whose name goes on beyond it
      std::string("\x2a\x7f", 2),          // an input that goes on beyond the message
      "\x0a\xff\xff\xff\xff\x0f",          // of 4 GB
      "\x07",                              // of a type that there is not
      std::string("\x0b\x0c", 2),          // a group
      std::string("\x2a\x04\x1a\x02\x80\x80", 6) + "\x80",
      std::string(3, '\0'),        // number 0
      "\x80\x80\x80\x80\x80\x80",  // a number without an end
      "\xa1\x06xxx",               // 8 bytes that are 3
      "\xa5\x06x"};
  for (const auto& bytes : wrong) {
    http::Budget budget(kPlenty);
    http::Reservation memory(budget);
    ModelInferRequest message;
    EXPECT_TRUE(contains(error_of([&] { parse(wire_of(bytes), memory, message); }),
                         "this is no inference.ModelInferRequest"));
  }
}

// Whatever bytes come: what the parser takes was counted.
TEST(Wire, DamagedMessagesAreCountedToo) {
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    auto bytes = random_message(random).substr(0, 200);
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      const auto memory = memory_of(bytes);
      ModelInferRequest message;
      const bool parsed = message.ParseFromString(bytes);
      EXPECT_TRUE(!parsed || memory >= message.SpaceUsedLong()) << "round " << round;
    } catch (const RequestError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(Wire, MemoryIsReservedBeforeAMessageIsParsed) {
  http::Budget budget(10000);
  http::Reservation memory(budget);
  ModelInferRequest message;
  const auto empty = repeated(std::string("\x2a\0", 2), 1000);
  EXPECT_TRUE(contains(error_of([&] { parse(wire_of(empty), memory, message); }),
                       "more than the 0 MB that all requests may"));
  EXPECT_EQ(message.inputs_size(), 0);
  EXPECT_EQ(budget.used(), 0U);
  {
    http::Reservation others(budget);
    ASSERT_TRUE(others.grow_to(9900));
    EXPECT_TRUE(contains(error_of([&] { parse(wire_of("\x0a\x01x"), memory, message); }),
                         "try again later"));
  }
  parse(wire_of("\x0a\x01x"), memory, message);
  EXPECT_EQ(message.model_name(), "x");
  EXPECT_GT(budget.used(), 0U);
}

}  // namespace
}  // namespace sullae::serve
