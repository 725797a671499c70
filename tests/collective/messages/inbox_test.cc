#include "collective/messages/inbox.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace sullae::messages {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// The next packet's payload; "nothing" where there is none.
std::string take(Inbox& inbox, std::uint64_t* id = nullptr, int* from = nullptr) {
  std::string text = "nothing";
  inbox.pop([&](int sender, const Packet& packet, std::span<const std::byte> payload) {
    text.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
    if (id != nullptr) *id = packet.id;
    if (from != nullptr) *from = sender;
  });
  return text;
}

TEST(Inbox, GivesPacketsOfEverySizeInTheirOrder) {
  Inbox own = Inbox::create();
  Inbox theirs = Inbox::open(own.handle());
  EXPECT_EQ(take(own), "nothing");
  std::uint64_t number = 0;
  for (const std::size_t size : {0UL, 1UL, 8UL, 71UL, 72UL, 73UL, 1000UL, kMostPayload}) {
    const std::string first(size, 'a');
    const std::string second(size, 'b');
    ASSERT_TRUE(theirs.push(3, {.id = ++number}, bytes_of(first)));
    ASSERT_TRUE(theirs.push(3, {.id = ++number}, bytes_of(second)));
    std::uint64_t id = 0;
    int from = 0;
    EXPECT_EQ(take(own, &id, &from), first);
    EXPECT_EQ(id, number - 1);
    EXPECT_EQ(from, 3);
    EXPECT_EQ(take(own, &id), second);
    EXPECT_EQ(id, number);
  }
  EXPECT_EQ(take(own), "nothing");
}

TEST(Inbox, RefusesWhatItHasNoRoomFor) {
  Inbox own = Inbox::create();
  Inbox one = Inbox::open(own.handle());
  Inbox other = Inbox::open(own.handle());
  int pushed = 0;
  while (one.push(0, {}, bytes_of(std::to_string(pushed)))) ++pushed;
  EXPECT_GT(pushed, 1);
  EXPECT_FALSE(other.push(1, {}, {}));
  for (int round = 0; round < 1000; ++round) {
    EXPECT_EQ(take(own), std::to_string(round));
    EXPECT_TRUE(
        ((round % 2) == 0 ? one : other).push(0, {}, bytes_of(std::to_string(pushed + round))));
    EXPECT_FALSE(one.push(0, {}, {}));
    EXPECT_FALSE(other.push(0, {}, {}));
  }
}

TEST(Inbox, LosesNothingOfManySenders) {
  constexpr int kSenders = 3;
  constexpr std::uint64_t kEach = 5000;
  Inbox own = Inbox::create();
  std::vector<std::thread> senders;
  for (int sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&own, sender] {
      Inbox theirs = Inbox::open(own.handle());
      for (std::uint64_t i = 0; i < kEach;) {
        const std::string text(i % 200, static_cast<char>('a' + sender));
        if (theirs.push(sender, {.id = i}, bytes_of(text))) {
          ++i;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  std::array<std::uint64_t, kSenders> next{};
  for (std::uint64_t taken = 0; taken < kSenders * kEach;) {
    const std::uint32_t bell = own.bell();
    std::uint64_t id = 0;
    int from = -1;
    const std::string text = take(own, &id, &from);
    if (from < 0) {
      own.sleep(bell, std::chrono::seconds{10});
      continue;
    }
    ++taken;
    const auto sender = static_cast<std::size_t>(from);
    ASSERT_EQ(id, next[sender]++);
    ASSERT_EQ(text, std::string(id % 200, static_cast<char>('a' + from)));
  }
  for (auto& sender : senders) sender.join();
}

TEST(Inbox, SaysWhatItsOwnerHasTakenBack) {
  Inbox owner = Inbox::create();
  const Inbox other = Inbox::open(owner.handle());
  EXPECT_FALSE(other.was_taken_back(1));
  owner.take_back(5);
  EXPECT_TRUE(other.was_taken_back(5));
  EXPECT_FALSE(other.was_taken_back(4));
  // More than are remembered one by one: then all up to the last.
  for (std::uint64_t offer = 10; offer < 200; offer += 2) owner.take_back(offer);
  EXPECT_TRUE(other.was_taken_back(198));
  EXPECT_TRUE(other.was_taken_back(4));
  EXPECT_FALSE(other.was_taken_back(199));
  owner.take_back(7);
  EXPECT_TRUE(other.was_taken_back(198));
}

TEST(Inbox, SaysThatItsOwnerHasLeftAndWhoItIs) {
  Inbox own = Inbox::create();
  const Inbox theirs = Inbox::open(own.handle());
  EXPECT_EQ(theirs.owner_process(), ::getpid());
  EXPECT_TRUE(theirs.can_read_owner());
  EXPECT_FALSE(theirs.owner_has_left());
  own.leave();
  EXPECT_TRUE(theirs.owner_has_left());
}

}  // namespace
}  // namespace sullae::messages
